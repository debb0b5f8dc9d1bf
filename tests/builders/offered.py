"""Containers of what runtimes choose from, in few words, made by fatpack's own ``pack``."""

from __future__ import annotations

import io
import re
import warnings

from tests.builders.fatbin import cubin, ptx

import fatpack
from fatpack import BundleOptions, FatbinOptions, ImageFile

#: how LTO-IR begins
LTO_IR = b"\xed\x43\x4e\x7f"

_AMD, _NVIDIA = "amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda"


def cuda(words: str) -> bytes:
    """Return a fat binary: ``90a`` is a cubin, ``p80`` PTX 8.0, ``p80@9.1`` PTX 9.1, ``L80`` LTO-IR.

    With ``zstd`` or ``lz4`` among the words the whole container is compressed so.
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
            "": cubin(int(arch.rstrip("af")), code=bytes(4000)),
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
        images.append(ImageFile(b"code" * 20, triple=triple, arch=word, offload="hip"))
    return _packed(images, options)


def openmp(words: str) -> bytes:
    """Return an offload binary of OpenMP images: ``80`` for NVIDIA, ``gfx90a`` for AMD."""
    return _packed(
        [
            ImageFile(b"code", triple=_AMD, arch=word, offload="openmp")
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


def kpack(words: str) -> bytes:
    """Return a kpack archive of the code objects of one program."""
    attrs = {"binary": "lib/libx.so#0"}
    images = [ImageFile(b"code" * 20, triple=_AMD, arch=word, offload="hip", attrs=attrs) for word in words.split()]
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
