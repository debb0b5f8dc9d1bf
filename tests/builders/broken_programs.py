"""Programs and objects that register device code, whole and broken in one way each: the matrix of docs/testing.md.

``python -m tests.builders.broken_programs`` builds all, asks ``inspect --runtime``, ``check --registered`` and
``doctor`` about each, and prints the table of what they say.
"""

from __future__ import annotations

import re
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import reference
from tests.builders import registration
from tests.builders.verdicts import verdicts

import fatpack

LINUX, ARM = "x86_64-linux-gnu", "aarch64-linux-gnu"
MSVC, MINGW = "x86_64-pc-windows-msvc", "x86_64-w64-windows-gnu"
ARM_MSVC = "aarch64-pc-windows-msvc"

WHOLE = "nothing (whole)"

VARIABLES = """
#define __constant__ __attribute__((constant))
struct textureReference { int desc; };
template <class T, int dim, int mode> struct __attribute__((device_builtin_texture_type)) texture : textureReference {};
struct surfaceReference { int desc; };
template <class T, int dim> struct __attribute__((device_builtin_surface_type)) surface : surfaceReference {};
template <int dim> struct __attribute__((device_builtin_surface_type)) surface<void, dim> : surfaceReference {};
texture<float, 2, 1> picture;
surface<void, 2> plane;
__constant__ int values[4];
__device__ int counter;
#ifdef IS_HIP
__attribute__((managed)) int managed;
extern "C" int hipGetSymbolAddress(void **, const void *);
#define SymbolAddress hipGetSymbolAddress
#else
#define managed 0
extern "C" int cudaGetSymbolAddress(void **, const void *);
#define SymbolAddress cudaGetSymbolAddress
#endif
void find(void **p) {
  SymbolAddress(p, &picture); SymbolAddress(p, &plane); SymbolAddress(p, &counter); SymbolAddress(p, values);
#ifdef IS_HIP
  SymbolAddress(p, &managed);
#endif
}
"""
#: kernels, a template of two instances, and variables of every kind that the host asks for
SOURCE = registration.SOURCE.replace("__device__ int counter;", VARIABLES).replace(
    "= counter;", "= counter + values[*p & 3] + managed;"
)
assert SOURCE.count("picture") == 2

HOST_ONLY = SOURCE.replace("many<<<a, a>>>((float *)p);", "")

_NAMES = [
    f"{begin}{model}{name}"
    for model in registration.MODELS
    for begin, names in (
        ("", "LaunchKernel GetSymbolAddress"),
        (
            "__",
            "PushCallConfiguration PopCallConfiguration RegisterFunction RegisterVar RegisterManagedVar "
            "RegisterTexture RegisterSurface RegisterFatBinary RegisterFatBinaryEnd UnregisterFatBinary InitModule",
        ),
    )
    for name in names.split()
]
_NAMES += ["__tgt_register_lib", "__tgt_unregister_lib", "__tgt_target_kernel", "__sycl_register_lib"]
_NAMES += ["__sycl_unregister_lib", "cudaMemcpyToSymbol", "__cudaGetKernel", "__cudaLaunchKernel"]
RUNTIME = "".join(f"int {name}() {{ return 0; }}\n" for name in _NAMES)
REST = "int atexit() { return 0; }\nint _fltused;\nint DllMainCRTStartup() { return 1; }\nint start() { return 0; }\n"


class Unit(NamedTuple):
    """Compiles IR to objects in a folder, for a target, by a version of clang."""

    folder: Path
    target: str
    version: str

    def compile(self, text: str, name: str = "unit") -> None:
        """Make the object of a name."""
        registration.compiled(self.folder, text, self.target, name, "-O2", "-fPIC", version=self.version)


class Case(NamedTuple):
    """One file: what made it, what is broken in it, in which form it is, and where."""

    toolchain: str
    kind: str
    form: str
    path: Path


Edit = Callable[[str], str]


def without(*words: str) -> Edit:
    """Return the edit that takes out the lines with some words."""

    def edit(text: str) -> str:
        lines = text.splitlines()
        kept = [line for line in lines if not any(re.search(word, line) for word in words)]
        assert len(kept) < len(lines), words
        return "\n".join(kept) + "\n"

    return edit


def without_first(word: str) -> Edit:
    """Return the edit that takes out the first line with a word."""

    def edit(text: str) -> str:
        lines = text.splitlines()
        del lines[next(index for index, line in enumerate(lines) if re.search(word, line))]
        return "\n".join(lines) + "\n"

    return edit


def _replaced(pattern: str, new: str) -> Edit:
    def edit(text: str) -> str:
        made, count = re.subn(pattern, new, text, flags=re.MULTILINE)
        assert count, pattern
        return made

    return edit


_BINARY = r"^\s*(%\w+) = ((?:tail )?call ptr @__(?:cuda|hip)RegisterFatBinary\(.*)$"

#: what is broken → the edit of the host's IR
KINDS: dict[str, Edit] = {
    "constructor dropped": without(r"^@llvm.global_ctors"),
    "call of RegisterFatBinary dropped": _replaced(_BINARY, r"  \1 = inttoptr i64 1 to ptr"),
    "all calls of RegisterFunction dropped": without(r"call .*RegisterFunction\("),
    "one call of RegisterFunction dropped": without_first(r"call .*RegisterFunction\("),
    "wrong name of a kernel": _replaced(r'c"plain\\00"', r'c"plaim\\00"'),
    "device variable lost": without(r"call .*RegisterVar\(.*\bcounter\b"),
    "constant variable lost": without(r"call .*RegisterVar\(.*\bvalues\b"),
    "texture lost": without(r"call .*RegisterTexture\("),
    "surface lost": without(r"call .*RegisterSurface\("),
    "record's magic damaged": _replaced(r"(fatbin_wrapper = .*\{ i32 )\d+", r"\g<1>7"),
    "record's pointer null": _replaced(r"(fatbin_wrapper = .*\{ i32 \d+, i32 \d+, ptr )[^,]+", r"\g<1>null"),
    "record registered twice": _replaced(_BINARY, r"  %again = \2\n  \1 = \2"),
}
KINDS_OF_HIP: dict[str, Edit] = {"managed variable lost": without(r"call .*RegisterManagedVar\(")}
KINDS_PLAIN: dict[str, Edit] = {
    "function that registers kernels not called": without(r"call .*@__(cuda|hip)_register_globals\("),
}

Link = Sequence[str]
_LLD = ["ld.lld", "--eh-frame-hdr", "unit.o"]
ELF_LINKS: dict[str, Link] = {
    "library": [*_LLD, "-shared", "-o", "program"],
    "static program": [*_LLD, "-static", "-e", "start", "rt.o", "-o", "program"],
}
_PE = ["lld-link", "/nodefaultlib", "/subsystem:console", "/opt:noref", "unit.o"]
PE_LINKS: dict[str, Link] = {
    "program": [*_PE, "/entry:start", "rest.o", "rt.lib", "/out:program"],
    "library": [*_PE, "/dll", "/noentry", "rest.o", "rt.lib", "/out:program"],
}
MINGW_LINKS: dict[str, Link] = {
    "program": ["ld.lld", "-m", "i386pep", "-e", "start", "unit.o", "rest.o", "rt.lib", "-o", "program"],
    "program of ld": ["x86_64-w64-mingw32-ld", "-e", "start", "unit.o", "rest.o", "rt.lib", "-o", "program"],
}
_MACHINES = {MSVC: "i386:x86-64", MINGW: "i386:x86-64", ARM_MSVC: "arm64"}


def runtime(folder: Path, target: str) -> None:
    """Make a runtime of empty functions: an object, and for Windows an import library."""
    if target in _MACHINES:
        (folder / "rt.def").write_text("LIBRARY rt.dll\nEXPORTS\n" + "".join(f"{name}\n" for name in _NAMES))
        reference.run("llvm-dlltool", "-m", _MACHINES[target], "-d", "rt.def", "-l", "rt.lib", cwd=folder)
    for name, text in (("rt", RUNTIME + REST), ("rest", REST)):
        (folder / f"{name}.c").write_text(text)
        options = [f"--target={target}", "-w", "-O1", "-ffreestanding", "-fPIC", "-c", f"{name}.c", "-o", f"{name}.o"]
        reference.run("clang", *[each for each in options if target == LINUX or each != "-fPIC"], cwd=folder)


def linked(folder: Path, links: dict[str, Link], *, strips: bool = True) -> Iterator[tuple[str, Path]]:
    """Yield the object ``unit.o``, and what links make of it, as it is and stripped."""
    yield "object", folder / "unit.o"
    for name, command in links.items():
        reference.run(*command, cwd=folder)
        yield name, folder / "program"
        if strips:
            reference.run("llvm-strip", "program", cwd=folder)
            yield f"{name}, stripped", folder / "program"


def of_clang(
    folder: Path,
    toolchain: str,
    model: str,
    target: str,
    level: str,
    links: dict[str, Link],
    *,
    version: str = "22",
    chosen: Collection[str] = (),
) -> Iterator[Case]:
    """Yield what clang makes of the source, whole and broken in all ways, or in those that are ``chosen``."""
    options = (level,) if target in _MACHINES else (level, "-fPIC")
    runtime(folder, target)
    container = registration.image(folder, model, SOURCE, version=version)
    text = registration.host_ir(folder, model, target, *options, embedded=container, version=version, source=SOURCE)
    kinds = {WHOLE: str, **KINDS, **(KINDS_OF_HIP if model == "hip" else {}), **(KINDS_PLAIN if level == "-O0" else {})}
    for kind, edit in kinds.items():
        if not chosen or kind in (WHOLE, *chosen):
            registration.compiled(folder, edit(text), target, "unit", *options, version=version)
            for form, path in linked(folder, links):
                yield Case(toolchain, kind, form, path)
    for kind, source in (("template instance on the host alone", HOST_ONLY), ("code of another source", None)):
        if not chosen or kind in chosen:
            name = f"other{kind[:4].strip()}"
            other = registration.image(folder, model, source or registration.OTHER, name, version)
            mixed = registration.host_ir(
                folder, model, target, *options, embedded=other, version=version, source=SOURCE
            )
            registration.compiled(folder, mixed, target, "unit", *options, version=version)
            for form, path in linked(folder, links):
                yield Case(toolchain, kind, form, path)
    registration.compiled(folder, text, target, "unit", *options, version=version)
    if target not in _MACHINES:
        for kind, form, path in patched(folder, links, model):
            yield Case(toolchain, kind, form, path)


_SEGMENTS = {"cuda": ".nvFatBinSegment", "hip": ".hipFatBinSegment"}
_CONTAINERS = {"cuda": ".nv_fatbin", "hip": ".hip_fatbin", "sycl": ".llvm.offloading"}


def patched(folder: Path, links: dict[str, Link], model: str) -> Iterator[tuple[str, str, Path]]:
    """Yield linked programs that are damaged after the link."""
    out = folder / "patched"
    for form, command in links.items():
        reference.run(*command, cwd=folder)
        if model in _SEGMENTS:
            reference.run("llvm-objcopy", f"--remove-section={_SEGMENTS[model]}", folder / "program", out)
            yield "section of records gone", form, out
        whole = (folder / "program").read_bytes()
        out.write_bytes(damaged_section(whole, _CONTAINERS[model], lambda data: bytes(len(data))))
        yield "container overwritten", form, out
        if "-shared" in command:
            for kind, tag in (("DT_INIT_ARRAYSZ of 0", 27), ("DT_INIT_ARRAY of other data", 25)):
                out.write_bytes(dynamic_entry(whole, tag, 0 if tag == 27 else None))
                yield kind, form, out


def damaged_section(data: bytes, name: str, edit: Callable[[bytes], bytes]) -> bytes:
    """Return an ELF file with other content of a section."""
    table, (size, count, names) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * index) for index in range(count)]
    strings = data[rows[names][4] : rows[names][4] + rows[names][5]]
    for row in rows:
        if strings[row[0] :].startswith(name.encode() + b"\0"):
            new = edit(data[row[4] : row[4] + row[5]])
            assert len(new) == row[5]
            return data[: row[4]] + new + data[row[4] + row[5] :]
    raise AssertionError(name)


def dynamic_entry(data: bytes, tag: int, value: int | None) -> bytes:
    """Return an ELF library with another value in the dynamic table; None: an address 64 bytes before."""
    made = []

    def edit(table: bytes) -> bytes:
        for at in range(0, len(table) - 15, 16):
            found, old = struct.unpack_from("<QQ", table, at)
            if found == tag:
                made.append(old)
                return table[:at] + struct.pack("<QQ", tag, old - 64 if value is None else value) + table[at + 16 :]
        raise AssertionError(tag)

    return damaged_section(data, ".dynamic", edit)


def clang_cuda(folder: Path) -> Iterator[Case]:
    for level in ("-O0", "-O2"):
        yield from of_clang(folder, "clang, CUDA", "cuda", LINUX, level, ELF_LINKS)


def clang_hip(folder: Path) -> Iterator[Case]:
    for level in ("-O0", "-O2"):
        yield from of_clang(folder, "clang, HIP", "hip", LINUX, level, ELF_LINKS)


def clang_23(folder: Path) -> Iterator[Case]:
    for model, level in (("cuda", "-O2"), ("hip", "-O0")):
        yield from of_clang(folder, "clang 23", model, LINUX, level, ELF_LINKS, version="23")


def clang_aarch64(folder: Path) -> Iterator[Case]:
    for model in registration.MODELS:
        yield from of_clang(folder, "clang, AArch64", model, ARM, "-O2", ELF_LINKS)


def clang_windows(folder: Path) -> Iterator[Case]:
    for model in registration.MODELS:
        for target, links in ((MSVC, PE_LINKS), (MINGW, MINGW_LINKS)):
            yield from of_clang(folder, "clang, Windows", model, target, "-O2", links)


def clang_windows_aarch64(folder: Path) -> Iterator[Case]:
    for model in registration.MODELS:
        yield from of_clang(folder, "clang, AArch64 Windows", model, ARM_MSVC, "-O2", PE_LINKS)


# nvcc: its objects are broken by changing their bytes, because its host code goes through a compiler of its own.

_NVCC_SOURCE = """
__device__ int counter;
__constant__ int values[4];
__managed__ int managed;
template <class T> __global__ void many(T *p) { *p = T(7); }
__global__ void first(int *p) { *p = counter + values[*p & 3] + managed; }
extern "C" __global__ void plain(int *p) { *p = 5; }
void launch(int *p) {
  first<<<1, 1>>>(p); plain<<<1, 1>>>(p); many<<<1, 1>>>(p);
#if !defined(ONLY) || !defined(__CUDA_ARCH__)
  many<<<1, 1>>>((float *)p);
#endif
}
void find(void **p) { cudaGetSymbolAddress(p, counter); cudaGetSymbolAddress(p, values); managed = 1; }
"""


class ObjectBytes:
    """An ELF object of x86-64 whose calls, relocations and sections can be broken."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        table, (size, count, names) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HHH", data, 58)
        self._rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * index) for index in range(count)]
        self._names = self._rows[names][4]

    def _string(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _section(self, name: str) -> tuple[int, ...]:
        found = [row for row in self._rows if self._string(self._names + row[0]).partition(".101")[0] == name]
        assert len(found) == 1, name
        return found[0]

    def content(self, name: str) -> tuple[int, int]:
        """Return where a section is, and its size."""
        row = self._section(name)
        return row[4], row[5]

    def without_calls(self, function: str, *numbers: int) -> ObjectBytes:
        """Replace the calls of a function by instructions without effect; ``numbers`` are those that go, none: all."""
        number = 0
        for row in self._rows:
            if row[1] != 4:
                continue
            symbols = self._rows[row[6]]
            for at in range(row[4], row[4] + row[5], 24):
                place, info = struct.unpack_from("<QQ", self.data, at)
                (name,) = struct.unpack_from("<I", self.data, symbols[4] + 24 * (info >> 32))
                call = self._rows[row[7]][4] + place - 1
                is_call = info & 0xFFFFFFFF in (2, 4) and self.data[call] in (0xE8, 0xE9)
                if is_call and self._string(self._rows[symbols[6]][4] + name) == function:
                    if not numbers or number in numbers:
                        self.data[call : call + 5] = bytes.fromhex("0f1f440000")
                        struct.pack_into("<QQQ", self.data, at, place, 0, 0)
                    number += 1
        assert number, function
        return self

    def without_relocations(self, section: str) -> ObjectBytes:
        """Take away what is added to the words of a section: its pointers are null."""
        start, size = self.content(f".rela{section}")
        for at in range(start, start + size, 24):
            struct.pack_into("<QQ", self.data, at + 8, 0, 0)
        return self

    def put(self, section: str, content: bytes) -> ObjectBytes:
        """Put other bytes at the start of a section."""
        start, size = self.content(section)
        assert len(content) <= size
        self.data[start : start + len(content)] = content
        return self

    def renamed(self, old: bytes, new: bytes) -> ObjectBytes:
        """Replace a string in the data that does not change."""
        count = 0
        for row in self._rows:
            if self._string(self._names + row[0]).startswith(".rodata"):
                at = self.data.find(b"\0" + old + b"\0", row[4], row[4] + row[5])
                if at >= 0:
                    self.data[at + 1 : at + 1 + len(old)] = new
                    count += 1
        assert count == 1 and len(new) == len(old), old
        return self


ObjectEdit = Callable[[ObjectBytes], ObjectBytes]

_NVCC_KINDS: dict[str, ObjectEdit] = {
    WHOLE: lambda unit: unit,
    "constructor dropped": lambda unit: unit.without_relocations(".init_array"),
    "call of RegisterFatBinary dropped": lambda unit: unit.without_calls("__cudaRegisterFatBinary"),
    "all calls of RegisterFunction dropped": lambda unit: unit.without_calls("__cudaRegisterFunction"),
    "one call of RegisterFunction dropped": lambda unit: unit.without_calls("__cudaRegisterFunction", 0),
    "wrong name of a kernel": lambda unit: unit.renamed(b"_Z5firstPi", b"_Z5firsdPi"),
    "device variable lost": lambda unit: unit.without_calls("__cudaRegisterVar", 0),
    "constant variable lost": lambda unit: unit.without_calls("__cudaRegisterVar", 1),
    "managed variable lost": lambda unit: unit.without_calls("__cudaRegisterManagedVar"),
    "record's magic damaged": lambda unit: unit.put(".nvFatBinSegment", b"\7\0\0\0"),
    "record's pointer null": lambda unit: unit.without_relocations(".nvFatBinSegment"),
}
#: objects of nvcc need its helpers and those of C++, which no test has
_OPEN = ["--unresolved-symbols=ignore-all"]


def nvcc(folder: Path) -> Iterator[Case]:
    """Yield objects of nvcc for a whole program, as they are and linked."""
    runtime(folder, LINUX)
    links = {name: [*command, *_OPEN] for name, command in ELF_LINKS.items()}
    unit = folder / "unit.o"
    for level in ("-Xcompiler=-O0", "-O2"):
        whole = _by_nvcc(folder, level)
        for kind, edit in _NVCC_KINDS.items():
            unit.write_bytes(edit(ObjectBytes(whole)).data)
            for form, path in linked(folder, links):
                yield Case("nvcc", kind, form, path)
        unit.write_bytes(_by_nvcc(folder, level, "-DONLY"))
        for form, path in linked(folder, links):
            yield Case("nvcc", "template instance on the host alone", form, path)
        unit.write_bytes(whole)
        for kind, form, path in patched(folder, links, "cuda"):
            yield Case("nvcc", kind, form, path)


def nvcc_rdc(folder: Path) -> Iterator[Case]:
    """Yield programs of relocatable device code, and the objects that go into them."""
    runtime(folder, LINUX)
    whole = _by_nvcc(folder, "-O2", "-rdc=true")
    unit, device = folder / "unit.o", folder / "device.o"
    unit.write_bytes(whole)
    options = ["-arch=sm_80", "-O2", "-Xcompiler=-fPIC", "-dlink", "unit.o", "-o", "device.o"]
    reference.run("nvcc", *options, cwd=folder)
    of_link = device.read_bytes()
    links = {name: [*command, *_OPEN, "device.o"] for name, command in ELF_LINKS.items()}
    for kind, edit in _NVCC_KINDS.items():
        is_of_unit = "RegisterFunction" in kind or "variable" in kind or kind in (WHOLE, "wrong name of a kernel")
        both = ("constructor dropped",)
        if kind in both or is_of_unit:
            unit.write_bytes(edit(ObjectBytes(whole)).data)
            device.write_bytes(of_link)
        else:
            unit.write_bytes(whole)
            device.write_bytes(edit(ObjectBytes(of_link)).data)
        for form, path in linked(folder, links):
            if form != "object" or kind in both or is_of_unit:
                yield Case("nvcc -rdc", kind, form, path)
    unit.write_bytes(whole)
    device.write_bytes(of_link)
    for kind, form, path in patched(folder, links, "cuda"):
        yield Case("nvcc -rdc", kind, form, path)
    without_link = {name: [*command, *_OPEN] for name, command in ELF_LINKS.items()}
    for form, path in linked(folder, without_link):
        if form != "object":
            yield Case("nvcc -rdc", "device link left out", form, path)


def _by_nvcc(folder: Path, *options: str) -> bytes:
    (folder / "unit.cu").write_text(_NVCC_SOURCE)
    fixed = ["-arch=sm_80", "-Xcompiler=-fPIC", "-c", "unit.cu", "-o", "made.o"]
    reference.run("nvcc", *options, *fixed, cwd=folder)
    return (folder / "made.o").read_bytes()


# The linker wrapper of LLVM and ``fatpack wrap``: host objects with entries, and an object that registers them all.

#: without kernels whose names depend on the file: entries and images are of separate compilations
_ENTRIES_SOURCE = "\n".join(
    line for line in SOURCE.splitlines() if not line.startswith(("namespace {", "static __global__"))
).replace(" hidden<<<a, a>>>(p, 1); local<<<a, a>>>(p);", "")


def _without_entry(name: str) -> Edit:
    return without(rf"^@\.offloading\.entry\.{name}\b")


_ENTRY_KINDS: dict[str, Edit] = {
    "all entries lost": without(r"^@\.offloading\.entry\."),
    "entries of all kernels lost": without(r"^@\.offloading\.entry\.(_Z5first|plain|_Z4many)"),
    "entry of one kernel lost": _without_entry("plain"),
    "wrong name of a kernel": KINDS["wrong name of a kernel"],
    "device variable lost": _without_entry("counter"),
    "constant variable lost": _without_entry("values"),
    "texture lost": _without_entry("picture"),
    "surface lost": _without_entry("plane"),
}
_WRAPPER_KINDS: dict[str, Edit] = {
    WHOLE: str,
    **{kind: KINDS[kind] for kind in ("constructor dropped", "call of RegisterFatBinary dropped")},
    "all calls of RegisterFunction dropped": _replaced(
        r"%\w+ = call i32 @__(cuda|hip)RegisterFunction\(.*", "%dropped = add i32 0, 0"
    ),
    **{kind: KINDS[kind] for kind in ("record's magic damaged", "record's pointer null", "record registered twice")},
}
_NUMBERED = re.compile(r"%(\d+)\b")


def linker_wrapper(folder: Path, name: str = "linker wrapper", version: str = "22") -> Iterator[Case]:
    """Yield programs whose entries the code of llvm-offload-wrapper registers."""
    for model in registration.MODELS:
        yield from _of_wrapper(folder, name, model, version, ELF_LINKS)


def _of_wrapper(
    folder: Path, name: str, model: str, version: str, links: dict[str, Link], chosen: Collection[str] = ()
) -> Iterator[Case]:
    host, container = _host_of_entries(folder, model, version)
    text = _with_names(_wrapper(folder, container, LINUX, model, version))
    links = {title: [*command, "w.o"] for title, command in links.items()}
    unit = Unit(folder, LINUX, version)
    unit.compile(host)
    for kind, edit in _WRAPPER_KINDS.items():
        if not chosen or kind in (WHOLE, *chosen):
            unit.compile(edit(text), "w")
            if kind != "constructor dropped":  # without it the optimizer leaves nothing
                yield Case(name, kind, "object", folder / "w.o")
            for form, path in linked(folder, links):
                if form != "object" or kind == WHOLE:
                    yield Case(name, kind, form, path)
    unit.compile(text, "w")
    yield from _with_entries(unit, name, model, host, links, chosen)


def _wrapper(folder: Path, container: Path, target: str, kind: str, version: str) -> str:
    """Return the IR that llvm-offload-wrapper makes of a container."""
    wrapper = [f"--triple={target}", f"--kind={kind}", "-o", "w.bc", container]
    reference.run(reference.llvm_tool("llvm-offload-wrapper", version), *wrapper, cwd=folder)
    reference.run(reference.llvm_tool("llvm-dis", version), "w.bc", "-o", "w.ll", cwd=folder)
    return (folder / "w.ll").read_text()


def fatpack_wrap(folder: Path) -> Iterator[Case]:
    """Yield programs whose entries the code of ``fatpack wrap`` registers."""
    from fatpack.main import main

    for model in registration.MODELS:
        name = "`fatpack wrap`"
        host, container = _host_of_entries(folder, model, "22")
        made = folder / "w.o"
        assert main(["wrap", "--quiet", "--force", "--kind", model, str(container), "-o", str(made)]) == 0
        whole = made.read_bytes()
        links = {title: [*command, "w.o"] for title, command in ELF_LINKS.items()}
        unit = Unit(folder, LINUX, "22")
        unit.compile(host)
        for kind, edit in _wrap_kinds(model).items():
            made.write_bytes(edit(ObjectBytes(whole)).data)
            yield Case(name, kind, "object", made)
            for form, path in linked(folder, links):
                if form != "object":
                    yield Case(name, kind, form, path)
        made.write_bytes(whole)
        yield from _with_entries(unit, name, model, host, links)


def _wrap_kinds(model: str) -> dict[str, ObjectEdit]:
    register, segment = f"__{model}Register", _SEGMENTS[model]
    return {
        WHOLE: lambda unit: unit,
        "constructor dropped": lambda unit: unit.without_relocations(".init_array"),
        "call of RegisterFatBinary dropped": lambda unit: unit.without_calls(f"{register}FatBinary"),
        "all calls of RegisterFunction dropped": lambda unit: unit.without_calls(f"{register}Function"),
        "record's magic damaged": lambda unit: unit.put(segment, b"\7\0\0\0"),
        "record's pointer null": lambda unit: unit.without_relocations(segment),
    }


def _host_of_entries(folder: Path, model: str, version: str) -> tuple[str, Path]:
    """Return the IR of host code with entries, and the container that goes with it."""
    runtime(folder, LINUX)
    options = ["-O2", "-fPIC", "-fgpu-rdc", "--offload-new-driver"]
    host = registration.host_ir(folder, model, LINUX, *options, version=version, source=_ENTRIES_SOURCE)
    return host, registration.image(folder, model, _ENTRIES_SOURCE, "entries", version)


def _with_names(text: str) -> str:
    """Return IR whose values have names: numbers must follow each other, and an edit takes some out."""
    lines = text.splitlines(keepends=True)
    return "".join(line if line.startswith("@") else _NUMBERED.sub(r"%v\1", line) for line in lines)


def _with_entries(
    unit: Unit, name: str, model: str, host: str, links: dict[str, Link], chosen: Collection[str] = ()
) -> Iterator[Case]:
    """Yield programs with whole code that registers, and entries, images or sections that are wrong."""
    folder = unit.folder
    kinds = {**_ENTRY_KINDS, **({"managed variable lost": _without_entry("managed")} if model == "hip" else {})}
    for kind, edit in kinds.items():
        if not chosen or kind in chosen:
            unit.compile(edit(host))
            for form, path in linked(folder, links):
                if form != "object":
                    yield Case(name, kind, form, path)
    unit.compile(host)
    if not chosen:
        for kind, form, path in patched(folder, links, model):
            yield Case(name, kind, form, path)
    yield from _without_wrapper(folder, name, links)


def _without_wrapper(folder: Path, name: str, links: dict[str, Link]) -> Iterator[Case]:
    for form, path in linked(folder, {title: command[:-1] for title, command in links.items()}):
        if form != "object":
            yield Case(name, "wrapper left out of the link", form, path)


# OpenMP and SYCL.

_OPENMP_SOURCE = """
int main(void) {
  int x = 0;
#pragma omp target map(tofrom : x)
  x = 1;
#pragma omp target map(tofrom : x)
  x += 2;
  return x;
}
"""
_REGISTERING: dict[str, Edit] = {
    WHOLE: str,
    "constructor dropped": KINDS["constructor dropped"],
    "call that registers the images dropped": without(r"call .*_register_lib\("),
}


def openmp(folder: Path) -> Iterator[Case]:
    """Yield programs of OpenMP, for two processors and two versions of LLVM, with the code of llvm-offload-wrapper."""
    for target, version in ((LINUX, "22"), (ARM, "22"), (LINUX, "23")):
        yield from _of_openmp(folder, "OpenMP", target, version, ELF_LINKS)


def _of_openmp(
    folder: Path, name: str, target: str, version: str, links: dict[str, Link], chosen: Collection[str] = ()
) -> Iterator[Case]:
    runtime(folder, target)
    (folder / "o.c").write_text(_OPENMP_SOURCE)
    offload = ["-fopenmp", "-fopenmp-targets=amdgcn-amd-amdhsa", "-nogpulib", "--offload-host-only"]
    device = ["-Xopenmp-target", "-march=gfx90a", f"--target={target}", "-O2", "-fPIC"]
    clang = reference.llvm_tool("clang", version)
    reference.run(clang, *offload, *device, "-S", "-emit-llvm", "o.c", "-o", "o.ll", cwd=folder)
    host = (folder / "o.ll").read_text()
    names = re.findall(r'entry_name[.\d]* = .* c"(\w+)\\00"', host)
    assert len(names) == 2, names
    containers = {len(kernels): _openmp_image(folder, kernels) for kernels in (names, names[:1])}
    links = {title: [*command, "w.o"] for title, command in links.items()}
    unit = Unit(folder, target, version)
    unit.compile(host)
    text = _wrapper(folder, containers[2], target, "openmp", version)
    for kind, edit in _REGISTERING.items():
        if not chosen or kind in (WHOLE, *chosen):
            unit.compile(edit(text), "w")
            if kind != "constructor dropped":
                yield Case(name, kind, "object", folder / "w.o")
            for form, path in linked(folder, links):
                if form != "object":
                    yield Case(name, kind, form, path)
    unit.compile(text, "w")
    for kind, edit in (
        ("all entries lost", without(r"^@\.offloading\.entry\.", r"^@llvm\.(compiler\.)?used")),
        ("wrong name of a kernel", _replaced(rf'c"{names[0][:-1]}.\\00"', f'c"{names[0][:-1]}x\\\\00"')),
    ):
        if not chosen or kind in chosen:
            unit.compile(edit(host))
            for form, path in linked(folder, links):
                if form != "object":
                    yield Case(name, kind, form, path)
    unit.compile(host)
    yield from _without_wrapper(folder, name, links)
    if not chosen:
        unit.compile(_wrapper(folder, containers[1], target, "openmp", version), "w")
        for form, path in linked(folder, links):
            if form != "object":
                yield Case(name, "code of another source", form, path)


def _openmp_image(folder: Path, kernels: Sequence[str]) -> Path:
    """Return an offload binary with a code object that has some kernels."""
    source = "".join(f'extern "C" __attribute__((global)) void {name}(int *p) {{ *p = 1; }}\n' for name in kernels)
    (folder / "k.hip").write_text(source)
    device = ["--offload-device-only", "--no-gpu-bundle-output", "-O1", "-c", "k.hip", "-o", "k.co"]
    reference.run("clang", *registration.OPTIONS["hip"], *device, cwd=folder)
    image = fatpack.ImageFile(folder / "k.co", triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="openmp")
    out = folder / f"openmp{len(kernels)}.bin"
    fatpack.pack([image], out, overwrite=True)
    return out


SPIRV = Path(__file__).parents[1] / "fixtures" / "kernels" / "add_one.llvm22.spv"


def sycl(folder: Path) -> Iterator[Case]:
    """Yield programs of SYCL: LLVM 22 registers a descriptor of the images, LLVM 23 a whole offload binary."""
    for target, version in ((LINUX, "22"), (LINUX, "23"), (ARM, "23")):
        yield from _of_sycl(folder, "SYCL", target, version, ELF_LINKS)


def _of_sycl(
    folder: Path, name: str, target: str, version: str, links: dict[str, Link], chosen: Collection[str] = ()
) -> Iterator[Case]:
    runtime(folder, target)
    image = fatpack.ImageFile(SPIRV, triple="spirv64-unknown-unknown", offload="sycl")
    given = folder / "sycl.bin"
    fatpack.pack([image], given, options=fatpack.OffloadBinaryOptions(version=int(version) - 21), overwrite=True)
    text = _sycl_wrapper(folder, given) if version == "22" else _wrapper(folder, given, target, "sycl", version)
    unit = Unit(folder, target, version)
    for kind, edit in _REGISTERING.items():
        if not chosen or kind in (WHOLE, *chosen):
            unit.compile(edit(text))
            for form, path in linked(folder, links):
                if form != "object" or kind != "constructor dropped":
                    yield Case(name, kind, form, path)
    if not chosen:
        unit.compile(text)
        for kind, form, path in patched(folder, links, "sycl"):
            yield Case(name, kind, form, path)


def _sycl_wrapper(folder: Path, given: Path) -> str:
    """Return the IR that clang-linker-wrapper of LLVM 22 makes of a container."""
    (folder / "empty.c").write_text("int nothing;")
    embed = ["-c", "empty.c", "-Xclang", f"-fembed-offload-object={given}", "-o", "embedded.o"]
    reference.run("clang", *embed, cwd=folder)
    wrapper = [f"--host-triple={LINUX}", "--print-wrapped-module", "--override-image=sycl=embedded.o"]
    done = reference.run(
        "clang-linker-wrapper", *wrapper, "--linker-path=/bin/true", "embedded.o", "-o", "nothing", cwd=folder
    )
    return done.stderr.decode()  # it prints where messages go


# Linkers: what the tables of a program look like depends on them, for the same objects.

_RELR = {"bfd": "-zpack-relative-relocs", "mold": "--pack-dyn-relocs=relr"}


def _linker(name: str) -> Callable[[Path], Iterator[Case]]:
    linker = {"bfd": "ld.bfd", "gold": "ld.gold", "mold": "mold"}[name]
    begin = [linker, "--eh-frame-hdr", "unit.o"]
    links: dict[str, Link] = {
        "library": [*begin, "-shared", "-o", "program"],
        "program": [
            *begin,
            "-pie",
            *_packed(name),
            "-e",
            "start",
            "--dynamic-linker=/ld.so",
            "rest.o",
            "rt.so",
            "-o",
            "program",
        ],
        "static program": [*begin, "-static", "-e", "start", "rt.o", "-o", "program"],
    }

    def made(folder: Path) -> Iterator[Case]:
        runtime(folder, LINUX)
        reference.run(linker, "-shared", "rt.o", "-soname", "rt.so", "-o", "rt.so", cwd=folder)
        for model, level, version in (("cuda", "-O2", "22"), ("hip", "-O0", "23")):
            yield from of_clang(folder, name, model, LINUX, level, links, version=version, chosen=_OF_LINKERS)
        yield from _of_wrapper(folder, name, "hip", "23", links, _OF_LINKERS)
        yield from _of_openmp(folder, name, LINUX, "23", links, _OF_LINKERS)
        yield from _of_sycl(folder, name, LINUX, "22", links, _OF_LINKERS)
        yield from _of_sycl(folder, name, LINUX, "23", links, _OF_LINKERS)

    return made


def _packed(linker: str) -> list[str]:
    """Return the option of a linker that packs relative relocations: gold has none."""
    return [_RELR[linker]] if linker in _RELR else []


#: the ways to break a program whose evidence lies in what a linker makes: tables of constructors, entries, pointers
_OF_LINKERS = (
    "constructor dropped",
    "call that registers the images dropped",
    "one call of RegisterFunction dropped",
    "wrong name of a kernel",
    "device variable lost",
    "record's pointer null",
    "all entries lost",
)


def quick(folder: Path) -> Iterator[Case]:
    """Yield a small part."""
    links = {"library": ELF_LINKS["library"]}
    yield from of_clang(folder, "clang, HIP", "hip", LINUX, "-O2", links, chosen=list(KINDS)[:3])


TOOLCHAINS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "clang, CUDA": clang_cuda,
    "clang, HIP": clang_hip,
    "clang, AArch64": clang_aarch64,
    "clang, Windows": clang_windows,
    "clang, AArch64 Windows": clang_windows_aarch64,
    "nvcc": nvcc,
    "nvcc -rdc": nvcc_rdc,
    "linker wrapper": linker_wrapper,
    "`fatpack wrap`": fatpack_wrap,
    "OpenMP": openmp,
    "SYCL": sycl,
    "clang 23": clang_23,
    "linker wrapper 23": lambda folder: linker_wrapper(folder, "linker wrapper 23", "23"),
    **{name: _linker(name) for name in ("bfd", "gold", "mold")},
}


FOUND, NOT_JUDGED, MISSED = "found", "not judged", "missed"


def outcome(case: Case) -> str:
    """Return what the three commands say of a file: they must agree. Of a whole file the right word counts as found."""
    found = verdicts(case.path)
    (said, *others) = found.values()
    assert others == [said, said], (case, found)
    word = said[0]
    if word == "not judged":
        return NOT_JUDGED
    if case.kind == WHOLE:
        assert word == "agrees", (case, said)
        return FOUND
    return FOUND if word == "findings" else MISSED


def counted(cases: Iterator[Case]) -> dict[str, Counter[str]]:
    """Return the number of files of each outcome by what is broken."""
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        counts.setdefault(case.kind, Counter())[outcome(case)] += 1
    return counts


def cell(count: Counter[str] | None) -> str:
    """Return how a table says some counts: those that were found, (not judged), and missed after a minus sign."""
    if not count:
        return ""
    more = [f"({count[NOT_JUDGED]})"] if count[NOT_JUDGED] else []
    more += [f"-{count[MISSED]}"] if count[MISSED] else []
    return " ".join([str(count[FOUND]), *more])


def table(counts: dict[str, dict[str, Counter[str]]]) -> list[str]:
    """Return the lines of the table of docs/testing.md."""
    kinds = list(dict.fromkeys(kind for found in counts.values() for kind in found))
    total = {name: sum(found.values(), Counter()) for name, found in counts.items()}
    rows = [["broken", *counts], ["---", *("---:" for _ in counts)]]
    rows += [[kind, *(cell(found.get(kind)) for found in counts.values())] for kind in kinds]
    rows.append(["all", *(cell(each) for each in total.values())])
    return [f"| {' | '.join(row)} |" for row in rows]


def main() -> None:
    """Build all, and print the table."""
    counts = {}
    for name, made in TOOLCHAINS.items():
        with tempfile.TemporaryDirectory() as folder:
            counts[name] = counted(made(Path(folder)))
    print("\n".join(table(counts)))


if __name__ == "__main__":
    main()
