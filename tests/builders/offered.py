"""Containers of what runtimes choose from, in few words, made by fatpack's own ``pack``."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence

from tests.builders import syclbin as files
from tests.builders.device_elf import device_elf
from tests.builders.fatbin import cubin, ptx
from tests.builders.spirv import module

import fatpack
from fatpack import BundleOptions, FatbinOptions, ImageFile

#: how LTO-IR begins
LTO_IR = b"\xed\x43\x4e\x7f"

#: EF_AMDGPU_MACH of processors, from LLVM's ``BinaryFormat/ELF.h``
_PROCESSORS = {
    "gfx900": 0x2C,
    "gfx906": 0x2F,
    "gfx90a": 0x3F,
    "gfx940": 0x40,
    "gfx942": 0x4C,
    "gfx1030": 0x36,
    "gfx1031": 0x37,
    "gfx1100": 0x41,
    "gfx9-generic": 0x51,
    "gfx10-3-generic": 0x53,
    "gfx11-generic": 0x54,
    "gfx12-generic": 0x59,
    "gfx9-4-generic": 0x5F,
}

_AMD, _NVIDIA = "amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda"


def cuda(words: str, kernels: Sequence[bytes] = (b"k",)) -> bytes:
    """Return a fat binary: ``90a`` is a cubin, ``p80`` PTX 8.0, ``p80@9.1`` PTX 9.1, ``L80`` LTO-IR.

    With ``zstd`` or ``lz4`` among the words the whole container is compressed so. ``kernels`` are those of its cubins.
    """
    images = []
    mode = {"zstd": "size", "lz4": "speed"}
    options = FatbinOptions(compress_mode="none")
    for word in words.split():
        if word in mode:
            options = FatbinOptions(compress_mode=mode[word], compress_all=True)  # type: ignore[arg-type]
            continue
        kind, arch, version = re.fullmatch(r"([pL]?)(\d+[af]?)@?([\d.]*)", word).groups()  # type: ignore[union-attr]
        data = {
            "": cubin(int(arch.rstrip("af")), code=bytes(4000), accelerated=arch.endswith("a"), kernels=kernels),
            "p": ptx(".visible .entry k() { ret; }\n" + "// more\n" * 500, version or "8.0", f"sm_{arch}"),
            "L": LTO_IR + bytes(60),
        }[kind]
        attrs = {"kind": {"": "elf", "p": "ptx", "L": "nvvm"}[kind], "check": "no"}
        images.append(ImageFile(data, arch=f"sm_{arch}", offload="cuda", attrs=attrs))
    return _packed(images, options)


def hip(words: str) -> bytes:
    """Return a bundle of code objects: ``gfx90a:xnack-``, ``amdgcnspirv``; ``ccob1`` to ``ccob3`` compress it."""
    images, options = [], BundleOptions()
    for word in words.split():
        if word.startswith("ccob"):
            options = BundleOptions(compression="zstd", version=int(word[4:]))
            continue
        triple = "spirv64-amd-amdhsa-" if word == "amdgcnspirv" else _AMD
        data = module([(6, "k")]) if word == "amdgcnspirv" else code_object(word)
        images.append(ImageFile(data, triple=triple, arch=word, offload="hip"))
    return _packed(images, options)


def code_object(target_id: str) -> bytes:
    """Return a code object with a kernel ``k``, as LLVM's ``ELF.h`` numbers processors and features."""
    processor, *features = target_id.split(":")
    flags = _PROCESSORS[processor]
    for feature in features:
        shift = {"xnack": 8, "sramecc": 10}[feature[:-1]]
        flags |= {"-": 2, "+": 3}[feature[-1]] << shift
    is_generic = processor.endswith("-generic")
    symbols = [(b"k.kd", 0x11, 0, 1)]  # the descriptor of a kernel
    version = 4 if is_generic else 3
    sections = [(1, bytes(64))]
    return device_elf(224, flags | is_generic << 24, osabi=64, abi_version=version, sections=sections, symbols=symbols)


def openmp(words: str) -> bytes:
    """Return an offload binary of OpenMP images: ``80`` for NVIDIA, ``gfx90a`` for AMD."""
    return _packed(
        [
            ImageFile(code_object(word), triple=_AMD, arch=word, offload="openmp")
            if word.startswith("gfx")
            else ImageFile(b"code", triple=_NVIDIA, arch=f"sm_{word}", offload="openmp")
            for word in words.split()
        ]
    )


def sycl(words: str) -> bytes:
    """Return an offload binary of SYCL images: a triple, and behind a colon the device that it was compiled for."""
    parts = [word.partition(":") for word in words.split()]
    return _packed(
        [ImageFile(b"code", triple=f"{triple}-unknown-unknown", arch=arch, offload="sycl") for triple, _, arch in parts]
    )


def syclbin(words: str) -> bytes:
    """Return a SYCLBIN file of one abstract module: ``spir64`` is SPIR-V, ``spir64_gen:pvc`` native code."""
    return syclbin_of([words])


def syclbin_of(modules: Sequence[str], version: int = 2) -> bytes:
    """Return a SYCLBIN file of several abstract modules."""
    made = []
    for words in modules:
        parts = [word.partition(":") for word in words.split()]
        images = [
            files.Image(b"code" if arch else module([(6, "k")]), f"{kind}-unknown-unknown", arch or None)
            for kind, _, arch in parts
        ]
        made.append(files.Module(sorted(images, key=lambda image: image.role)))
    return files.v1(made) if version == 1 else files.v2(files.entries(made))


def kpack(words: str) -> bytes:
    """Return a kpack archive of the code objects of one program."""
    attrs = {"binary": "lib/libx.so#0"}
    images = [
        ImageFile(code_object(word), triple=_AMD, arch=word, offload="hip", attrs=attrs) for word in words.split()
    ]
    return _packed(images, "kpack")


def _packed(images: list[ImageFile], how: object = None) -> bytes:
    output = io.BytesIO()
    if isinstance(how, str):
        fatpack.pack(images, output, format=how)  # type: ignore[arg-type]
    else:
        with warnings.catch_warnings():  # cubins do not show the suffix that they are stored for
            warnings.simplefilter("ignore", UserWarning)
            fatpack.pack(images, output, options=how)  # type: ignore[arg-type]
    return output.getvalue()
