"""The targets: the tested function, the first files, and the positions of the numbers in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tools.fuzz import checks, evidence, kpack, quick, reference, seeds
from tools.fuzz.mutate import Field

from fatpack import binary, formats
from fatpack.tools import TOOLS


class Target(NamedTuple):
    """A tested function, its first files, and the positions of their numbers."""

    name: str
    run: Callable[[bytes], str]
    first: Callable[[], list[bytes]]
    fields: Callable[[bytes], list[Field]]
    words: list[bytes] = seeds.WORDS
    is_text: bool = False


def _files(*folders: str, ends: tuple[str, ...] = ("",)) -> Callable[[], list[bytes]]:
    return lambda: seeds.files(*folders, ends=ends)


def _no_fields(_data: bytes) -> list[Field]:
    return []


_CIR = "cir-offload-container"
_TEXT = (".cir", ".mlir")
#: format → the folder of its fixtures
_FORMATS = {
    "llvm-offload-binary": "offload_binary",
    "clang-offload-bundle": "clang_bundle",
    "cuda-fatbin": "cuda_fatbin",
    "rocm-kpack": "kpack",
    "rocm-kernel-cache": "kernel_cache",
    "aotriton-aks2": "aks2",
    "syclbin": "syclbin",
    "metal-library": "metallib",
    _CIR: "cir",
}
#: hosts with fixtures in more than the folder of their name
_HOSTS = {"elf": ("elf", "demo", "cuda_fatbin/hosts"), "coff": ("coff", "cuda_fatbin/hosts")}
_IDS = "-targets=host-x86_64-unknown-linux-gnu-,cuda-nvptx64-nvidia-cuda--sm_80"

#: stand-in → the folders of its files, and command lines for a file called ``in``
_TOOLS = {
    "llvm-offload-binary": (
        ("offload_binary", "elf"),
        [["in", "--image=file=out"], ["-o", "out", "--image=file=in,triple=t"]],
    ),
    "clang-offload-bundler": (
        ("clang_bundle", "elf"),
        [
            ["-type=o", "-list", "-input=in"],
            ["-type=bc", "-unbundle", "-allow-missing-bundles", "-input=in", "-output=a", "-output=b", _IDS],
        ],
    ),
    "cuobjdump": (("cuda_fatbin", "cuobjdump"), [["-lelf", "in"], ["-xelf", "all", "in"], ["-xptx", "all", "in"]]),
    "fatbinary": (
        ("cuda/cubin", "cuda/ptx"),
        [["--create=out", f"--image3=kind={kind},sm=80,file=in"] for kind in ("elf", "ptx")],
    ),
    "llvm-offload-wrapper": (("offload_binary", "elf"), [["--kind=openmp", "-o", "out", "in"]]),
    "clang-offload-wrapper": (
        ("offload_binary", "elf", "file_table"),
        [
            ["-target=x86_64-unknown-linux-gnu", "-o", "out", "in"],
            ["-kind=sycl", "-host=x86_64", "-target=spir64", "-properties=in", "-entries=in", "-o", "out", "in"],
            ["-kind=sycl", "-host=x86_64", "-target=spir64", "-batch", "-o", "out", "in"],
        ],
    ),
    # Without --offloading they become their originals.
    "llvm-objdump": (("elf", "coff", "archive", "offload_binary"), [["--offloading", "in"]]),
    "llvm-readobj": (("elf", "coff", "archive"), [["--offloading", "in"]]),
    "clang-linker-wrapper": (
        ("elf", "coff", "archive"),
        [["--dry-run", "--linker-path=/usr/bin/ld", "--host-triple=x86_64-unknown-linux-gnu", "in", "-o", "out"]],
    ),
    "nvprune": (("cuda_fatbin", "elf"), [["-arch", "sm_80", "-o", "out", "in"]]),
    "clang-offload-deps": (("elf", "coff", "pe"), [["-targets=sycl-spir64-unknown-unknown", "-outputs=out", "in"]]),
    # No program of that name is run.
    "llvm-foreach": (("file_table",), [["--in-file-list=in", "--in-replace={}", "--", "no/program", "{}"]]),
    # It takes addresses, not files.
    "roc-obj-extract": (("elf", "offload_binary"), [["file://in#offset=0&size=64"], ["-o", "-", "file://in"]]),
    "file-table-tform": (
        ("file_table",),
        [
            ["-extract=Code,Symbols", "-rename=Code,IR", "-o", "out", "in"],
            ["-replace=Code,0", "-drop_titles", "-o", "out", "in", "in"],
        ],
    ),
    "cir-offload-merge": (
        ("cir",),
        [
            ["-split", "-input=in", "-output=a", "-output=b", _IDS],
            ["-combine", "-input=in", "-input=in", "-output=a", _IDS],
        ],
    ),
}

#: stand-ins that read any file with device code
_ANY_TOOL = (("elf", "offload_binary", "clang_bundle", "cuda_fatbin"), [["in"]])


def _targets() -> Iterator[Target]:
    fields = checks.file_fields
    everything = (*_FORMATS.values(), *binary.MODULES, "demo")
    yield Target("inspect", checks.inspect_file, _files(*everything), fields)
    yield Target("rows", checks.rows_of_file, _files(*everything), fields)
    images = _files("cuda/cubin", "cuda/ptx", "kernels", "bitcode", "elf")
    yield Target("image", checks.read_image, images, fields)
    yield Target("tile-ir", checks.read_tile_ir, _files("tile_ir", ends=(".tileirbc",)), _no_fields)
    yield Target("sidecar", checks.read_sidecar, _files("triton", ends=(".json",)), _no_fields)
    alone = _files(
        "cuda/cubin", "kernels", "triton", "tile_ir", "elf", ends=(".cubin", ".hsaco", ".spv", ".tileirbc", ".o")
    )
    yield Target("deep", checks.search_all, alone, fields)
    for name in formats.MODULES:
        if name == _CIR:
            text, bytecode = _files("cir", ends=_TEXT), _files("cir", ends=(".mlirbc",))
            yield Target("cir-text", checks.format_room(name), text, _no_fields, seeds.TEXT_WORDS, is_text=True)
            yield Target("cir-bytecode", checks.format_room(name), bytecode, checks.format_fields(name))
        else:
            yield Target(name, checks.format_room(name), _files(_FORMATS[name]), checks.format_fields(name))
    for name in quick.NAMES:
        yield Target(f"quick-{name}", quick.both_ways(name), _files(_FORMATS[name]), checks.format_fields(name))
    for name in binary.MODULES:
        yield Target(name, checks.host_room(name), _files(*_HOSTS.get(name, (name,))), fields)
    yield Target("kpack-marker", kpack.read_marker, kpack.markers, _no_fields, kpack.WORDS)
    yield Target("kpack-manifest", kpack.read_manifest, kpack.manifests, _no_fields, kpack.WORDS)
    yield Target("evidence", evidence.read_evidence, evidence.hosts, fields, evidence.WORDS)
    yield Target("gcc-offload", evidence.read_gcc_offload, _files("gcc"), fields)
    yield Target("packages", checks.read_package, seeds.packages, _no_fields)
    objects = ("elf", "coff", "archive", "demo")
    yield Target("embed", checks.edit_file(checks.with_another), _files(*objects), fields)
    yield Target("replace", checks.edit_file(checks.with_other), _files(*objects), fields)
    containers = ("offload_binary", "clang_bundle", "cuda_fatbin", "kpack", "aks2", "syclbin")
    yield Target("remove", checks.remove_file, _files(*objects, *containers), fields)
    yield Target("normalize", checks.normalize_file, _files(*objects, *containers, "kernels", "triton"), fields)
    yield Target("relay", checks.relay_file, seeds.linked, fields)
    for name in {module: name for name, module in reversed(TOOLS.items())}.values():
        folders, command_lines = _TOOLS.get(name, _ANY_TOOL)
        is_text = name == "cir-offload-merge"
        words = seeds.TEXT_WORDS if is_text else seeds.WORDS
        run, own_fields = checks.run_tool(name, *command_lines), _no_fields if is_text else fields
        yield Target(f"tool-{name}", run, _files(*folders), own_fields, words, is_text=is_text)


def _same() -> Iterator[Target]:
    for name, (folders, command_lines) in _TOOLS.items():
        if reference.original(name) is not None:
            run = reference.same_as(name, *command_lines)
            yield Target(f"same-{name}", run, _files(*folders), checks.file_fields)


TARGETS = {target.name: target for target in _targets()}

#: Targets that start another tool for every file; empty if none is installed.
DIFFERENTIAL = {target.name: target for target in _same()}
