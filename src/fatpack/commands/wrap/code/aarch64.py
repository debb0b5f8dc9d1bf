"""Code for AArch64 (AAPCS64): arguments in x0 to x7, then on the stack.

Every function signs its return address, which also makes it a place to branch to where BTI is on; on processors that
know neither, both are hints without effect. All addresses are relative to the page of the instruction, so that the
code goes into programs and libraries of any kind. A field of ``llvm_offload_entries`` is at x20 + its offset.
"""

from __future__ import annotations

#: The start of a function that saves no register.
BEGIN = """\
3f 23 03 d5                           paciasp
                                      .cfi_negate_ra_state
fd 7b be a9                           stp x29, x30, [sp, #-32]!
                                      .cfi_def_cfa_offset 32
                                      .cfi_offset x30, -24
                                      .cfi_offset x29, -32
fd 03 00 91                           mov x29, sp
"""

#: Its end.
END = """\
fd 7b c2 a8                           ldp x29, x30, [sp], #32
                                      .cfi_def_cfa_offset 0
                                      .cfi_restore x30
                                      .cfi_restore x29
bf 23 03 d5                           autiasp
                                      .cfi_negate_ra_state
c0 03 5f d6                           ret
"""

#: ``{function}(&descriptor)``
CALL_DESCRIPTOR = """\
00 00 00 90 <page21 descriptor>       adrp x0, descriptor
00 00 00 91 <low12 descriptor>        add x0, x0, :lo12:descriptor
00 00 00 94 <call26 {function}>       bl {function}
"""

#: ``{function}(binary, size)``
CALL_BINARY = """\
00 00 00 90 <page21 binary>           adrp x0, binary
00 00 00 91 <low12 binary>            add x0, x0, :lo12:binary
01 00 80 d2 <imm16 size>              movz x1, #({size} & 0xffff)
01 00 a0 f2 <imm16high size>          movk x1, #({size} >> 16), lsl #16
00 00 00 94 <call26 {function}>       bl {function}
"""

#: ``atexit(unregister)``
AT_EXIT = """\
00 00 00 90 <page21 unregister>       adrp x0, unregister
00 00 00 91 <low12 unregister>        add x0, x0, :lo12:unregister
00 00 00 94 <call26 atexit>           bl atexit
"""

#: A whole start of ``register``: ``handle = __{runtime}RegisterFatBinary(&wrapper); globals(handle)``
REGISTER_FATBIN = """\
3f 23 03 d5                           paciasp
                                      .cfi_negate_ra_state
fd 7b be a9                           stp x29, x30, [sp, #-32]!
                                      .cfi_def_cfa_offset 32
                                      .cfi_offset x30, -24
                                      .cfi_offset x29, -32
fd 03 00 91                           mov x29, sp
f3 0b 00 f9                           str x19, [sp, #16]
                                      .cfi_offset x19, -16
00 00 00 90 <page21 wrapper>          adrp x0, wrapper
00 00 00 91 <low12 wrapper>           add x0, x0, :lo12:wrapper
00 00 00 94 <call26 __{runtime}RegisterFatBinary>  bl __{runtime}RegisterFatBinary
f3 03 00 aa                           mov x19, x0
08 00 00 90 <page21 handle>           adrp x8, handle
00 01 00 f9 <low12x8 handle>          str x0, [x8, :lo12:handle]
00 00 00 94 <branch26 globals>        bl globals
"""

#: ``__{runtime}RegisterFatBinaryEnd(handle)``
FATBIN_END = """\
e0 03 13 aa                           mov x0, x19
00 00 00 94 <call26 __{runtime}RegisterFatBinaryEnd>  bl __{runtime}RegisterFatBinaryEnd
"""

#: The end of that function.
REGISTER_FATBIN_END = """\
f3 0b 40 f9                           ldr x19, [sp, #16]
fd 7b c2 a8                           ldp x29, x30, [sp], #32
                                      .cfi_def_cfa_offset 0
                                      .cfi_restore x30
                                      .cfi_restore x29
bf 23 03 d5                           autiasp
                                      .cfi_negate_ra_state
c0 03 5f d6                           ret
"""

#: ``__{runtime}UnregisterFatBinary(handle)``
UNREGISTER_FATBIN = """\
08 00 00 90 <page21 handle>           adrp x8, handle
00 01 40 f9 <low12x8 handle>          ldr x0, [x8, :lo12:handle]
00 00 00 94 <call26 __{runtime}UnregisterFatBinary>  bl __{runtime}UnregisterFatBinary
"""

#: ``globals(handle)``: each entry of this kind is registered as its size and the low bits of its flags say. An entry of
#: size 0 is a kernel: ``__{runtime}RegisterFunction(handle, address, name, name, -1, 0, 0, 0, 0, 0)``. Bits 0 is a
#: variable: ``__{runtime}RegisterVar(handle, address, name, name, extern, size, constant, 0)``; 1 is a managed one:
#: ``__{runtime}RegisterManagedVar(handle, auxiliary address, address, name, size, data)``. Its start, up to an entry:
GLOBALS = """\
3f 23 03 d5                           paciasp
                                      .cfi_negate_ra_state
fd 7b bd a9                           stp x29, x30, [sp, #-48]!
                                      .cfi_def_cfa_offset 48
                                      .cfi_offset x30, -40
                                      .cfi_offset x29, -48
fd 03 00 91                           mov x29, sp
                                      .cfi_def_cfa_register x29
f3 53 01 a9                           stp x19, x20, [sp, #16]
f5 13 00 f9                           str x21, [sp, #32]
ff 43 00 d1                           sub sp, sp, #16
                                      .cfi_offset x19, -32
                                      .cfi_offset x20, -24
                                      .cfi_offset x21, -16
f3 03 00 aa                           mov x19, x0
14 00 00 90 <page21 start>            adrp x20, start
94 02 00 91 <low12 start>             add x20, x20, :lo12:start
15 00 00 90 <page21 stop>             adrp x21, stop
b5 02 00 91 <low12 stop>              add x21, x21, :lo12:stop
again:
9f 02 15 eb                           cmp x20, x21
00 00 00 54 <branch19 done>           b.eq done
"""

#: Entries of another kind are passed over.
OF_KIND = """\
88 16 40 79                           ldrh w8, [x20, #10]
1f 01 00 71 <imm12 kind>              cmp w8, #{kind}
01 00 00 54 <branch19 next>           b.ne next
"""

#: The fields of an entry, and the registration of a kernel or a variable.
ENTRY = """\
e0 03 13 aa                           mov x0, x19
81 0a 40 a9 <imm7x8 address>          ldp x1, x2, [x20, #{address}]
e3 03 02 aa                           mov x3, x2
89 02 40 f9 <imm12x8 size>            ldr x9, [x20, #{size}]
8a 02 40 b9 <imm12x4 flags>           ldr w10, [x20, #{flags}]
09 00 00 b5 <branch19 variable>       cbnz x9, variable
04 00 80 12                           mov w4, #-1
e5 03 1f aa                           mov x5, xzr
e6 03 1f aa                           mov x6, xzr
e7 03 1f aa                           mov x7, xzr
ff 7f 00 a9                           stp xzr, xzr, [sp]
00 00 00 94 <call26 __{runtime}RegisterFunction>  bl __{runtime}RegisterFunction
00 00 00 14 <branch26 next>           b next
variable:
4b 09 00 72                           ands w11, w10, #7
01 00 00 54 <branch19 managed>        b.ne managed
44 0d 03 53                           ubfx w4, w10, #3, #1
e5 03 09 aa                           mov x5, x9
46 11 04 53                           ubfx w6, w10, #4, #1
e7 03 1f 2a                           mov w7, wzr
00 00 00 94 <call26 __{runtime}RegisterVar>  bl __{runtime}RegisterVar
00 00 00 14 <branch26 next>           b next
"""

#: The registration of a managed variable.
MANAGED = """\
7f 05 00 71                           cmp w11, #1
01 00 00 54 <branch19 surface>        b.ne surface
e2 03 01 aa                           mov x2, x1
81 02 40 f9 <imm12x8 auxiliary>       ldr x1, [x20, #{auxiliary}]
e4 03 09 aa                           mov x4, x9
85 02 40 b9 <imm12x4 data>            ldr w5, [x20, #{data}]
00 00 00 94 <call26 __{runtime}RegisterManagedVar>  bl __{runtime}RegisterManagedVar
00 00 00 14 <branch26 next>           b next
"""

#: Bits 2: ``__{runtime}RegisterSurface(handle, address, name, name, data, extern)``; bits 3:
#: ``__{runtime}RegisterTexture(handle, address, name, name, data, normalized, extern)``.
SURFACES = """\
7f 09 00 71                           cmp w11, #2
01 00 00 54 <branch19 texture>        b.ne texture
84 02 40 b9 <imm12x4 data>            ldr w4, [x20, #{data}]
45 0d 03 53                           ubfx w5, w10, #3, #1
00 00 00 94 <call26 __{runtime}RegisterSurface>  bl __{runtime}RegisterSurface
00 00 00 14 <branch26 next>           b next
texture:
7f 0d 00 71                           cmp w11, #3
01 00 00 54 <branch19 next>           b.ne next
84 02 40 b9 <imm12x4 data>            ldr w4, [x20, #{data}]
45 15 05 53                           ubfx w5, w10, #5, #1
46 0d 03 53                           ubfx w6, w10, #3, #1
00 00 00 94 <call26 __{runtime}RegisterTexture>  bl __{runtime}RegisterTexture
"""

#: The end of the loop over the entries, and of the function.
GLOBALS_END = """\
next:
94 02 00 91 <imm12 pitch>             add x20, x20, #{pitch}
00 00 00 14 <branch26 again>          b again
done:
bf 03 00 91                           mov sp, x29
                                      .cfi_def_cfa_register sp
f3 53 41 a9                           ldp x19, x20, [sp, #16]
f5 13 40 f9                           ldr x21, [sp, #32]
fd 7b c3 a8                           ldp x29, x30, [sp], #48
                                      .cfi_def_cfa_offset 0
                                      .cfi_restore x30
                                      .cfi_restore x29
bf 23 03 d5                           autiasp
                                      .cfi_negate_ra_state
c0 03 5f d6                           ret
"""
