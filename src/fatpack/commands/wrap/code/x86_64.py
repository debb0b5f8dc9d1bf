"""Code for x86-64 as ELF hosts call it (System V ABI): arguments in rdi, rsi, rdx, rcx, r8, r9, then on the stack.

Every function keeps a frame pointer, and so the stack at a multiple of 16 bytes in front of each call. What a runtime
calls through a pointer starts with ``endbr64``, as processors with indirect branch tracking (CET) ask; shadow stacks
see nothing but calls and returns. All addresses are relative to the instruction, so that the code goes into programs
and libraries of any kind. A field of ``llvm_offload_entries`` is at rbx + its offset.
"""

from __future__ import annotations

#: The start of a function that saves no register.
BEGIN = """\
f3 0f 1e fa                           endbr64
55                                    push rbp
                                      .cfi_def_cfa_offset 16
                                      .cfi_offset rbp, -16
48 89 e5                              mov rbp, rsp
                                      .cfi_def_cfa_register rbp
"""

#: Its end.
END = """\
5d                                    pop rbp
                                      .cfi_def_cfa rsp, 8
c3                                    ret
"""

#: ``{function}(&descriptor)``
CALL_DESCRIPTOR = """\
48 8d 3d <pc32 descriptor>            lea rdi, [rip + descriptor]
e8 <call32 {function}>                call {function}
"""

#: ``{function}(binary, size)``
CALL_BINARY = """\
48 8d 3d <pc32 binary>                lea rdi, [rip + binary]
be <u32 size>                         mov esi, {size}
e8 <call32 {function}>                call {function}
"""

#: ``atexit(unregister)``
AT_EXIT = """\
48 8d 3d <local32 unregister>         lea rdi, [rip + unregister]
e8 <call32 atexit>                    call atexit
"""

#: A whole start of ``register``: ``handle = __{runtime}RegisterFatBinary(&wrapper); globals(handle)``
REGISTER_FATBIN = """\
f3 0f 1e fa                           endbr64
55                                    push rbp
                                      .cfi_def_cfa_offset 16
                                      .cfi_offset rbp, -16
48 89 e5                              mov rbp, rsp
                                      .cfi_def_cfa_register rbp
53                                    push rbx
48 83 ec 08                           sub rsp, 8
                                      .cfi_offset rbx, -24
48 8d 3d <pc32 wrapper>               lea rdi, [rip + wrapper]
e8 <call32 __{runtime}RegisterFatBinary>  call __{runtime}RegisterFatBinary
48 89 05 <pc32 handle>                mov [rip + handle], rax
48 89 c3                              mov rbx, rax
48 89 c7                              mov rdi, rax
e8 <local32 globals>                  call globals
"""

#: ``__{runtime}RegisterFatBinaryEnd(handle)``
FATBIN_END = """\
48 89 df                              mov rdi, rbx
e8 <call32 __{runtime}RegisterFatBinaryEnd>  call __{runtime}RegisterFatBinaryEnd
"""

#: The end of that function.
REGISTER_FATBIN_END = """\
48 8b 5d f8                           mov rbx, [rbp - 8]
c9                                    leave
                                      .cfi_def_cfa rsp, 8
c3                                    ret
"""

#: ``__{runtime}UnregisterFatBinary(handle)``
UNREGISTER_FATBIN = """\
48 8b 3d <pc32 handle>                mov rdi, [rip + handle]
e8 <call32 __{runtime}UnregisterFatBinary>  call __{runtime}UnregisterFatBinary
"""

#: ``globals(handle)``: each entry of this kind is registered as its size and the low bits of its flags say. An entry of
#: size 0 is a kernel: ``__{runtime}RegisterFunction(handle, address, name, name, -1, 0, 0, 0, 0, 0)``. Bits 0 is a
#: variable: ``__{runtime}RegisterVar(handle, address, name, name, extern, size, constant, 0)``; 1 is a managed one:
#: ``__{runtime}RegisterManagedVar(handle, auxiliary address, address, name, size, data)``. Its start, up to an entry:
GLOBALS = """\
55                                    push rbp
                                      .cfi_def_cfa_offset 16
                                      .cfi_offset rbp, -16
48 89 e5                              mov rbp, rsp
                                      .cfi_def_cfa_register rbp
53                                    push rbx
41 54                                 push r12
41 55                                 push r13
41 56                                 push r14
                                      .cfi_offset rbx, -24
                                      .cfi_offset r12, -32
                                      .cfi_offset r13, -40
                                      .cfi_offset r14, -48
49 89 fc                              mov r12, rdi
48 8d 1d <pc32 start>                 lea rbx, [rip + start]
4c 8d 2d <pc32 stop>                  lea r13, [rip + stop]
again:
4c 39 eb                              cmp rbx, r13
0f 84 <local32 done>                  {{disp32}} je done
"""

#: Entries of another kind are passed over.
OF_KIND = """\
66 83 7b 0a <byte kind>               cmp word ptr [rbx + 10], {kind}
0f 85 <local32 next>                  {{disp32}} jne next
"""

#: The fields of an entry, and the registration of a kernel or a variable.
ENTRY = """\
4c 89 e7                              mov rdi, r12
48 8b 73 <byte address>               {{disp8}} mov rsi, [rbx + {address}]
48 8b 53 <byte name>                  {{disp8}} mov rdx, [rbx + {name}]
48 89 d1                              mov rcx, rdx
48 8b 43 <byte size>                  {{disp8}} mov rax, [rbx + {size}]
44 8b 53 <byte flags>                 {{disp8}} mov r10d, [rbx + {flags}]
48 85 c0                              test rax, rax
0f 85 <local32 variable>              {{disp32}} jne variable
41 b8 ff ff ff ff                     mov r8d, -1
45 31 c9                              xor r9d, r9d
6a 00                                 push 0
6a 00                                 push 0
6a 00                                 push 0
6a 00                                 push 0
e8 <call32 __{runtime}RegisterFunction>  call __{runtime}RegisterFunction
48 83 c4 20                           add rsp, 32
e9 <local32 next>                     {{disp32}} jmp next
variable:
45 89 d3                              mov r11d, r10d
41 83 e3 07                           and r11d, 7
0f 85 <local32 managed>               {{disp32}} jne managed
45 89 d0                              mov r8d, r10d
41 c1 e8 03                           shr r8d, 3
41 83 e0 01                           and r8d, 1
49 89 c1                              mov r9, rax
41 c1 ea 04                           shr r10d, 4
41 83 e2 01                           and r10d, 1
6a 00                                 push 0
41 52                                 push r10
e8 <call32 __{runtime}RegisterVar>    call __{runtime}RegisterVar
48 83 c4 10                           add rsp, 16
e9 <local32 next>                     {{disp32}} jmp next
"""

#: The registration of a managed variable.
MANAGED = """\
41 83 fb 01                           cmp r11d, 1
0f 85 <local32 surface>               {{disp32}} jne surface
48 8b 73 <byte auxiliary>             {{disp8}} mov rsi, [rbx + {auxiliary}]
48 8b 53 <byte address>               {{disp8}} mov rdx, [rbx + {address}]
49 89 c0                              mov r8, rax
44 8b 4b <byte data>                  {{disp8}} mov r9d, [rbx + {data}]
e8 <call32 __{runtime}RegisterManagedVar>  call __{runtime}RegisterManagedVar
e9 <local32 next>                     {{disp32}} jmp next
"""

#: Bits 2: ``__{runtime}RegisterSurface(handle, address, name, name, data, extern)``; bits 3:
#: ``__{runtime}RegisterTexture(handle, address, name, name, data, normalized, extern)``.
SURFACES = """\
41 83 fb 02                           cmp r11d, 2
0f 85 <local32 texture>               {{disp32}} jne texture
44 8b 43 <byte data>                  {{disp8}} mov r8d, [rbx + {data}]
45 89 d1                              mov r9d, r10d
41 c1 e9 03                           shr r9d, 3
41 83 e1 01                           and r9d, 1
e8 <call32 __{runtime}RegisterSurface>  call __{runtime}RegisterSurface
e9 <local32 next>                     {{disp32}} jmp next
texture:
41 83 fb 03                           cmp r11d, 3
0f 85 <local32 next>                  {{disp32}} jne next
44 8b 43 <byte data>                  {{disp8}} mov r8d, [rbx + {data}]
45 89 d1                              mov r9d, r10d
41 c1 e9 05                           shr r9d, 5
41 83 e1 01                           and r9d, 1
41 c1 ea 03                           shr r10d, 3
41 83 e2 01                           and r10d, 1
48 83 ec 08                           sub rsp, 8
41 52                                 push r10
e8 <call32 __{runtime}RegisterTexture>  call __{runtime}RegisterTexture
48 83 c4 10                           add rsp, 16
"""

#: The end of the loop over the entries, and of the function.
GLOBALS_END = """\
next:
48 83 c3 <byte pitch>                 add rbx, {pitch}
e9 <local32 again>                    {{disp32}} jmp again
done:
48 8d 65 e0                           lea rsp, [rbp - 32]
41 5e                                 pop r14
41 5d                                 pop r13
41 5c                                 pop r12
5b                                    pop rbx
5d                                    pop rbp
                                      .cfi_def_cfa rsp, 8
c3                                    ret
"""
