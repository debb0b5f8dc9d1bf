"""Types of the words that arguments of the library take, for type checkers and ``help``.

``tests/library/test_literals.py`` compares each with the table that decides at run time. No module imports this one
when fatpack runs: importing ``typing`` takes as long as a whole command without click.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Format: TypeAlias = Literal["offload-binary", "bundle", "cir", "fatbin", "kpack", "syclbin"]
"""A format that ``pack`` and ``convert`` write: the value of ``--format``."""

Form: TypeAlias = Literal[
    "cubin",
    "ptx",
    "code-object",
    "object",
    "bitcode",
    "spirv",
    "fatbin",
    "bundle",
    "offload-binary",
    "syclbin",
    "cir",
    "ltoir",
    "tileir",
    "llvm-ir",
    "assembly",
    "preprocessed",
    "archive",
    "aocx",
    "aocr",
    "air",
    "empty",
    "",
]
"""The kind of an image's bytes; "" if unknown."""

Compression: TypeAlias = Literal["zlib", "zstd"]
"""Compression of an offload binary of version 3, a bundle or (only zstd) a kpack archive."""

Offload: TypeAlias = Literal["none", "openmp", "cuda", "hip", "sycl", "host"]
"""The programming model of an image; ``host`` is for bundles and CIR containers."""

BundleType: TypeAlias = Literal["bc", "o", "a", "gch", "ast", "i", "ii", "cui", "hipi", "d", "s", "ll"]
"""The type of the files in a bundle, as clang-offload-bundler calls it."""

CirForm: TypeAlias = Literal["attribute", "nested", "op", "op-string", "prototype"]
"""The notation of the container in a CIR file."""

SyclbinState: TypeAlias = Literal["input", "object", "executable"]
"""The state of the kernel bundle in a SYCLBIN file, as in ``sycl::bundle_state``."""

Producer: TypeAlias = Literal["12.8", "13.0", "13.5"]
"""A version of CUDA whose compression fatpack reproduces."""

CompressMode: TypeAlias = Literal["default", "speed", "balance", "size", "none"]
"""Compression by fatbinary: the values of ``--compress-mode``."""

Runtime: TypeAlias = Literal["openmp", "cuda", "hip", "sycl"]
"""The runtime with which ``wrap`` registers images: the value of ``--kind``."""

Emit: TypeAlias = Literal["obj", "llvm-ir"]
"""The output of ``wrap``: the value of ``--emit``."""

KeepPtx: TypeAlias = Literal["none", "newest", "all"]
"""PTX that ``slim`` keeps besides the images that devices load: the value of ``--keep-ptx``."""

Widening: TypeAlias = Literal["siblings", "none"]
"""Kernels that ``slim`` keeps beside those that ran: the value of ``--widen``."""

NullPackage: TypeAlias = Literal["fat", "rest", "none"]
"""What the package for all other devices has after ``split``: the value of ``--null``."""

SlimMode: TypeAlias = Literal["auto", "shrink", "zero"]
"""The way in which ``slim`` removes bytes from linked files: the value of ``--mode``."""

Recompression: TypeAlias = Literal["zstd", "lz4", "zlib", "none"]
"""Compression of images by ``slim``: the value of ``--recompress``."""

CondaDependency: TypeAlias = Literal["cuda-arch", "__cuda_arch"]
"""The package on which conda packages of ``split`` depend: the value of ``--depend-on``."""
