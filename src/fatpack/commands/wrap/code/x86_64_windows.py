"""Code for x86-64 as Windows calls it: arguments in rcx, rdx, r8, r9, then on the stack.

The caller leaves 32 bytes of shadow space in front of those on the stack. Every function takes all of its stack at
once, so that the stack is at a multiple of 16 bytes in front of each call and
three kinds of unwind codes describe it. A field of ``llvm_offload_entries`` is at rbx + its offset.
"""

from __future__ import annotations

#: The start of a function that saves no register.
BEGIN = """\
48 83 ec 28                           sub rsp, 40
                                      .seh_stackalloc 40
                                      .seh_endprologue
"""

#: Its end.
END = """\
48 83 c4 28                           add rsp, 40
c3                                    ret
"""

#: ``{function}(&descriptor)``
CALL_DESCRIPTOR = """\
48 8d 0d <pc32 descriptor>            lea rcx, [rip + descriptor]
e8 <call32 {function}>                call {function}
"""

#: ``{function}(binary, size)``
CALL_BINARY = """\
48 8d 0d <pc32 binary>                lea rcx, [rip + binary]
ba <u32 size>                         mov edx, {size}
e8 <call32 {function}>                call {function}
"""

#: ``atexit(unregister)``
AT_EXIT = """\
48 8d 0d <local32 unregister>         lea rcx, [rip + unregister]
e8 <call32 atexit>                    call atexit
"""

#: A whole start of ``register``: ``handle = __{runtime}RegisterFatBinary(&wrapper); globals(handle)``
REGISTER_FATBIN = """\
53                                    push rbx
                                      .seh_pushreg rbx
48 83 ec 20                           sub rsp, 32
                                      .seh_stackalloc 32
                                      .seh_endprologue
48 8d 0d <pc32 wrapper>               lea rcx, [rip + wrapper]
e8 <call32 __{runtime}RegisterFatBinary>  call __{runtime}RegisterFatBinary
48 89 05 <pc32 handle>                mov [rip + handle], rax
48 89 c3                              mov rbx, rax
48 89 c1                              mov rcx, rax
e8 <local32 globals>                  call globals
"""

#: ``__{runtime}RegisterFatBinaryEnd(handle)``
FATBIN_END = """\
48 89 d9                              mov rcx, rbx
e8 <call32 __{runtime}RegisterFatBinaryEnd>  call __{runtime}RegisterFatBinaryEnd
"""

#: The end of that function.
REGISTER_FATBIN_END = """\
48 83 c4 20                           add rsp, 32
5b                                    pop rbx
c3                                    ret
"""

#: ``__{runtime}UnregisterFatBinary(handle)``
UNREGISTER_FATBIN = """\
48 8b 0d <pc32 handle>                mov rcx, [rip + handle]
e8 <call32 __{runtime}UnregisterFatBinary>  call __{runtime}UnregisterFatBinary
"""

#: ``globals(handle)``: each entry of this kind is registered as its size and the low bits of its flags say. An entry of
#: size 0 is a kernel: ``__{runtime}RegisterFunction(handle, address, name, name, -1, 0, 0, 0, 0, 0)``. Bits 0 is a
#: variable: ``__{runtime}RegisterVar(handle, address, name, name, extern, size, constant, 0)``; 1 is a managed one:
#: ``__{runtime}RegisterManagedVar(handle, auxiliary address, address, name, size, data)``. Its start, up to an entry:
GLOBALS = """\
53                                    push rbx
                                      .seh_pushreg rbx
56                                    push rsi
                                      .seh_pushreg rsi
57                                    push rdi
                                      .seh_pushreg rdi
48 83 ec 50                           sub rsp, 80
                                      .seh_stackalloc 80
                                      .seh_endprologue
48 89 cf                              mov rdi, rcx
48 8d 1d <pc32 start>                 lea rbx, [rip + start]
48 8d 35 <pc32 stop>                  lea rsi, [rip + stop]
again:
48 39 f3                              cmp rbx, rsi
0f 84 <local32 done>                  {{disp32}} je done
"""

#: Entries of another kind are passed over.
OF_KIND = """\
66 83 7b 0a <byte kind>               cmp word ptr [rbx + 10], {kind}
0f 85 <local32 next>                  {{disp32}} jne next
"""

#: The fields of an entry, and the registration of a kernel or a variable.
ENTRY = """\
48 89 f9                              mov rcx, rdi
48 8b 53 <byte address>               {{disp8}} mov rdx, [rbx + {address}]
4c 8b 43 <byte name>                  {{disp8}} mov r8, [rbx + {name}]
4d 89 c1                              mov r9, r8
48 8b 43 <byte size>                  {{disp8}} mov rax, [rbx + {size}]
44 8b 53 <byte flags>                 {{disp8}} mov r10d, [rbx + {flags}]
48 85 c0                              test rax, rax
0f 85 <local32 variable>              {{disp32}} jne variable
c7 44 24 20 ff ff ff ff               mov dword ptr [rsp + 32], -1
48 89 44 24 28                        mov [rsp + 40], rax
48 89 44 24 30                        mov [rsp + 48], rax
48 89 44 24 38                        mov [rsp + 56], rax
48 89 44 24 40                        mov [rsp + 64], rax
48 89 44 24 48                        mov [rsp + 72], rax
e8 <call32 __{runtime}RegisterFunction>  call __{runtime}RegisterFunction
e9 <local32 next>                     {{disp32}} jmp next
variable:
45 89 d3                              mov r11d, r10d
41 83 e3 07                           and r11d, 7
0f 85 <local32 managed>               {{disp32}} jne managed
45 89 d3                              mov r11d, r10d
41 c1 eb 03                           shr r11d, 3
41 83 e3 01                           and r11d, 1
44 89 5c 24 20                        mov [rsp + 32], r11d
48 89 44 24 28                        mov [rsp + 40], rax
41 c1 ea 04                           shr r10d, 4
41 83 e2 01                           and r10d, 1
44 89 54 24 30                        mov [rsp + 48], r10d
c7 44 24 38 00 00 00 00               mov dword ptr [rsp + 56], 0
e8 <call32 __{runtime}RegisterVar>    call __{runtime}RegisterVar
e9 <local32 next>                     {{disp32}} jmp next
"""

#: The registration of a managed variable.
MANAGED = """\
41 83 fb 01                           cmp r11d, 1
0f 85 <local32 surface>               {{disp32}} jne surface
49 89 d0                              mov r8, rdx
48 8b 53 <byte auxiliary>             {{disp8}} mov rdx, [rbx + {auxiliary}]
48 89 44 24 20                        mov [rsp + 32], rax
8b 43 <byte data>                     {{disp8}} mov eax, [rbx + {data}]
89 44 24 28                           mov [rsp + 40], eax
e8 <call32 __{runtime}RegisterManagedVar>  call __{runtime}RegisterManagedVar
e9 <local32 next>                     {{disp32}} jmp next
"""

#: Bits 2: ``__{runtime}RegisterSurface(handle, address, name, name, data, extern)``; bits 3:
#: ``__{runtime}RegisterTexture(handle, address, name, name, data, normalized, extern)``.
SURFACES = """\
41 83 fb 02                           cmp r11d, 2
0f 85 <local32 texture>               {{disp32}} jne texture
8b 43 <byte data>                     {{disp8}} mov eax, [rbx + {data}]
89 44 24 20                           mov [rsp + 32], eax
41 c1 ea 03                           shr r10d, 3
41 83 e2 01                           and r10d, 1
44 89 54 24 28                        mov [rsp + 40], r10d
e8 <call32 __{runtime}RegisterSurface>  call __{runtime}RegisterSurface
e9 <local32 next>                     {{disp32}} jmp next
texture:
41 83 fb 03                           cmp r11d, 3
0f 85 <local32 next>                  {{disp32}} jne next
8b 43 <byte data>                     {{disp8}} mov eax, [rbx + {data}]
89 44 24 20                           mov [rsp + 32], eax
44 89 d0                              mov eax, r10d
c1 e8 05                              shr eax, 5
83 e0 01                              and eax, 1
89 44 24 28                           mov [rsp + 40], eax
41 c1 ea 03                           shr r10d, 3
41 83 e2 01                           and r10d, 1
44 89 54 24 30                        mov [rsp + 48], r10d
e8 <call32 __{runtime}RegisterTexture>  call __{runtime}RegisterTexture
"""

#: The end of the loop over the entries, and of the function.
GLOBALS_END = """\
next:
48 83 c3 <byte pitch>                 add rbx, {pitch}
e9 <local32 again>                    {{disp32}} jmp again
done:
48 83 c4 50                           add rsp, 80
5f                                    pop rdi
5e                                    pop rsi
5b                                    pop rbx
c3                                    ret
"""
