"""Types of the words that arguments of the library take, for type checkers and ``help``.

``tests/library/test_literals.py`` compares each with the table that decides at run time. No module imports this one when
fatpack runs: importing ``typing`` takes as long as a whole command without click.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Format: TypeAlias = Literal["offload-binary", "bundle", "cir", "fatbin", "kpack", "syclbin"]
"""What ``pack`` and ``convert`` make: the word after ``--format=``."""

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
    "empty",
    "",
]
"""What the bytes of an image are; "" where that is unknown."""

Compression: TypeAlias = Literal["zlib", "zstd"]
"""How an offload binary of version 3, a bundle or (with zstd) a kpack archive is compressed."""

Offload: TypeAlias = Literal["none", "openmp", "cuda", "hip", "sycl", "host"]
"""The programming model of an image; ``host`` is for bundles and CIR containers."""

BundleType: TypeAlias = Literal["bc", "o", "a", "gch", "ast", "i", "ii", "cui", "hipi", "d", "s", "ll"]
"""What clang-offload-bundler calls the type of the files in a bundle."""

CirForm: TypeAlias = Literal["attribute", "nested", "op", "op-string", "prototype"]
"""How the container of a CIR file is spelled."""

SyclbinState: TypeAlias = Literal["input", "object", "executable"]
"""The state of the kernel bundle that a SYCLBIN file becomes, as ``sycl::bundle_state`` has it."""

Producer: TypeAlias = Literal["12.8", "13.0", "13.5"]
"""A version of CUDA whose way of compression is known."""

CompressMode: TypeAlias = Literal["default", "speed", "balance", "size", "none"]
"""How fatbinary compresses: the words of ``--compress-mode``."""

Runtime: TypeAlias = Literal["openmp", "cuda", "hip", "sycl"]
"""The runtime that gets the images which ``wrap`` registers: the word after ``--kind=``."""

Emit: TypeAlias = Literal["obj", "llvm-ir"]
"""What ``wrap`` writes: the word after ``--emit=``."""

KeepPtx: TypeAlias = Literal["none", "newest", "all"]
"""Which PTX ``slim`` keeps beside what devices take: the word after ``--keep-ptx=``."""

SlimMode: TypeAlias = Literal["auto", "shrink", "zero"]
"""How ``slim`` takes bytes out of linked files: the word after ``--mode=``."""

Recompression: TypeAlias = Literal["zstd", "lz4", "zlib", "none"]
"""How ``slim`` compresses images anew: the word after ``--recompress=``."""
