"""The functions that register images, as LLVM IR: instruction by instruction those of LLVM's wrappers.

:mod:`fatpack.commands.wrap.code.template` describes them; names of values and blocks are kept, so that the text
is what ``llvm-dis`` prints of a wrapper made by LLVM.
"""

from __future__ import annotations

from fatpack.commands.wrap.ir.text import ENTRY_TYPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.commands.wrap.registration import EntryLayout

_OPENMP = """\

define internal void @.omp_offloading.descriptor_reg() section "{code}" {{
entry:
  call void @__tgt_register_lib(ptr @.omp_offloading.descriptor)
  %0 = call i32 @atexit(ptr @.omp_offloading.descriptor_unreg)
  ret void
}}

declare void @__tgt_register_lib(ptr)

declare i32 @atexit(ptr)

define internal void @.omp_offloading.descriptor_unreg() section "{code}" {{
entry:
  call void @__tgt_unregister_lib(ptr @.omp_offloading.descriptor)
  ret void
}}

declare void @__tgt_unregister_lib(ptr)"""

_SYCL = """\

define internal void @sycl.descriptor_{verb}() section "{code}" {{
entry:
  call void @__sycl_{verb}ister_lib({argument})
  ret void
}}

declare void @__sycl_{verb}ister_lib({types})"""

_DPCPP = """\

define internal void @{kind}.descriptor_{verb}() section "{code}" {{
entry:
  call void @{runtime}_{verb}ister_lib(ptr {descriptor})
  ret void
}}"""

_FATBIN = """\

define internal void @.{r}.fatbin_reg() section "{code}" {{
entry:
  %0 = call ptr @__{r}RegisterFatBinary(ptr @.fatbin_wrapper)
  store ptr %0, ptr @.{r}.binary_handle, align 8
  call void @.{r}.globals_reg(ptr %0)
{end}  %1 = call i32 @atexit(ptr @.{r}.fatbin_unreg)
  ret void
}}

define internal void @.{r}.fatbin_unreg() section "{code}" {{
entry:
  %0 = load ptr, ptr @.{r}.binary_handle, align 8
  call void @__{r}UnregisterFatBinary(ptr %0)
  ret void
}}

declare ptr @__{r}RegisterFatBinary(ptr)

declare void @__cudaRegisterFatBinaryEnd(ptr)

declare void @__{r}UnregisterFatBinary(ptr)

declare i32 @atexit(ptr)

declare i32 @__{r}RegisterFunction(ptr, ptr, ptr, ptr, i32, ptr, ptr, ptr, ptr, ptr)

declare void @__{r}RegisterVar(ptr, ptr, ptr, ptr, i32, i64, i32, i32)

{managed}declare void @__{r}RegisterSurface(ptr, ptr, ptr, ptr, i32, i32)

declare void @__{r}RegisterTexture(ptr, ptr, ptr, ptr, i32, i32, i32)
"""

_MANAGED = "declare void @__{r}RegisterManagedVar(ptr, ptr, ptr, ptr, i64, i32)\n\n"

#: fields of an entry: name of its value, number of the field, type, alignment; %1 is whether there are entries at all
_FIELDS = (
    ("addr", 4, "ptr", 8),
    ("aux_addr", 8, "ptr", 8),
    ("kind", 2, "i16", 2),
    ("name", 5, "ptr", 8),
    ("size", 6, "i64", 4),
    ("flags", 3, "i32", 4),
    ("data", 7, "i64", 4),
)

#: The same of entries up to LLVM 20.
_OLD_FIELDS = (
    ("addr", 0, "ptr", 8),
    ("name", 1, "ptr", 8),
    ("size", 2, "i64", 4),
    ("flags", 3, "i32", 4),
    ("textype", 4, "i32", 4),
)

#: bits of the flags: name of the value, its mask, how far it is shifted
_BITS = (("extern", 8, 3), ("constant", 16, 4), ("normalized", 32, 5))

_GLOBALS = """\
define internal void @.{r}.globals_reg(ptr %0) section "{code}" {{
entry:
  %1 = icmp ne ptr {start}, {stop}
  br i1 %1, label %while.entry, label %while.end

while.entry:                                      ; preds = %if.end, %entry
  %entry1 = phi ptr [ {start}, %entry ], [ %{next}, %if.end ]
{fields}
{data}  %type = and i32 %flags, 7
{bits}
{of_kind}  %{empty} = icmp eq i64 %size, 0
  br i1 %{empty}, label %if.then, label %if.else

if.then:                                          ; preds = %{before}
  %{called} = call i32 @__{r}RegisterFunction({named}, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  br label %if.end

if.else:                                          ; preds = %{before}
  switch i32 %type, label %if.end [
    i32 0, label %sw.global
    i32 1, label %sw.managed
    i32 2, label %sw.surface
    i32 3, label %sw.texture
  ]

sw.global:                                        ; preds = %if.else
  call void @__{r}RegisterVar({named}, i32 %extern, i64 %size, i32 %constant, i32 0)
  br label %if.end

sw.managed:                                       ; preds = %if.else
{managed}  br label %if.end

sw.surface:                                       ; preds = %if.else
{surface}  br label %if.end

sw.texture:                                       ; preds = %if.else
{texture}  br label %if.end

if.end:                                           ; preds = %sw.texture, %sw.surface, %sw.managed, %sw.global, \
%if.else, %if.then{last}
  %{next} = getelementptr inbounds {entry}, ptr %entry1, i64 1
  %{end} = icmp eq ptr %{next}, {stop}
  br i1 %{end}, label %while.end, label %while.entry

while.end:                                        ; preds = %if.end, %entry
  ret void
}}"""

_OF_KIND = """\
  %13 = icmp eq i16 %kind, {kind}
  br i1 %13, label %if.kind, label %if.end

if.kind:                                          ; preds = %while.entry
"""

_NAMED = "ptr %0, ptr %addr, ptr %name, ptr %name"


def openmp_functions(code: str) -> str:
    """Return the functions for a descriptor of OpenMP's; ``code`` is their section."""
    return _OPENMP.format(code=code)


def sycl_functions(argument: str, types: str, code: str) -> str:
    """Return the functions that hand something to the SYCL runtime: ``argument``, of these ``types``."""
    return "\n".join(_SYCL.format(verb=verb, argument=argument, types=types, code=code) for verb in ("reg", "unreg"))


def dpcpp_functions(descriptors: Mapping[str, str], code: str) -> str:
    """Return the functions that hand the descriptor of each kind to its runtime: OpenMP's for all but SYCL."""
    runtimes = {kind: "__sycl" if kind == "sycl" else "__tgt" for kind in descriptors}
    verbs = ("reg", "unreg")
    made = [
        _DPCPP.format(kind=kind, verb=verb, runtime=runtimes[kind], descriptor=descriptor, code=code)
        for kind, descriptor in descriptors.items()
        for verb in verbs
    ]
    declared = [f"{runtime}_{verb}ister_lib" for runtime in dict.fromkeys(runtimes.values()) for verb in verbs]
    return "\n".join((*made, *(f"\ndeclare void @{name}(ptr)" for name in declared)))


def fatbin_functions(runtime: str, entries: EntryLayout, start: str, stop: str, code: str) -> str:
    """Return the functions for a fat binary, and for the entries between ``start`` and ``stop`` of its kind."""
    is_new = "kind" in entries.fields
    end = f"  call void @__{runtime}RegisterFatBinaryEnd(ptr %0)\n" if runtime == "cuda" else ""
    index = "i32 0" if is_new else "i64 0"
    fields = "\n".join(
        f"  %{number} = getelementptr inbounds {ENTRY_TYPE}, ptr %entry1, {index}, i32 {field}\n"
        f"  %{word} = load {type}, ptr %{number}, align {align}"
        for number, (word, field, type, align) in enumerate(_FIELDS if is_new else _OLD_FIELDS, 2)
    )
    bits = "\n".join(
        f"  %{number} = and i32 %flags, {mask}\n  %{word} = lshr i32 %{number}, {shift}"
        for number, (word, mask, shift) in enumerate(_BITS, 10 if is_new else 7)
    )
    data = "%9" if is_new else "%textype"
    managed = surface = texture = ""
    if is_new:
        arguments = f"ptr %0, ptr %aux_addr, ptr %addr, ptr %name, i64 %size, i32 {data}"
        managed = f"  call void @__{runtime}RegisterManagedVar({arguments})\n"
    if runtime == "hip":
        surface = f"  call void @__hipRegisterSurface({_NAMED}, i32 {data}, i32 %extern)\n"
        texture = f"  call void @__hipRegisterTexture({_NAMED}, i32 {data}, i32 %normalized, i32 %extern)\n"
    # Values without a name are numbered in their order.
    first = 14 if is_new else 10
    globals = _GLOBALS.format(
        r=runtime, code=code, start=start, stop=stop, entry=ENTRY_TYPE, fields=fields, bits=bits, named=_NAMED,
        managed=managed, surface=surface, texture=texture,
        data="  %9 = trunc i64 %data to i32\n" if is_new else "",
        of_kind=_OF_KIND.format(kind=entries.fields["kind"]) if is_new else "",
        before="if.kind" if is_new else "while.entry", last=", %while.entry" if is_new else "",
        empty=first, called=first + 1, next=first + 2, end=first + 3,
    )  # fmt: skip
    declared = _MANAGED.format(r=runtime) if is_new else ""
    return f"{_FATBIN.format(r=runtime, code=code, end=end, managed=declared)}\n{globals}"
