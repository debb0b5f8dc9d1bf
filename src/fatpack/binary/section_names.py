"""Names of the sections that contain or describe device code, as compilers write them into any kind of host.

Each kind of host decides with them where its device code may be (``locate``, ``elf/device_sections``). Names of
sections without device code are in :mod:`fatpack.binary.host_sections`. ``proof`` has lists of its own, because it
shares nothing with the editors.

CUDA and HIP: clang/lib/CodeGen/CGCUDANV.cpp of LLVM 22.1, and objects of nvcc 13.5. Offload binaries:
llvm/lib/Object/OffloadBinary.cpp. Bundles and their sizes: clang/lib/Driver/OffloadBundler.cpp.
"""

from __future__ import annotations

#: Sections of CUDA fat binaries: loaded by a program; input of a device link.
CUDA_FATBIN, CUDA_RELOCATABLE = ".nv_fatbin", "__nv_relfatbin"

#: Records that point to CUDA's fat binaries.
#: QUIRK(nvcc 13.5, --enable-tile): fat binaries of tile code have records in a section of their own.
CUDA_RECORDS, CUDA_TILE_RECORDS = ".nvFatBinSegment", ".nvFatBinSegmentAlt"

#: The names of the units of CUDA's relocatable code.
CUDA_MODULE_IDS = "__nv_module_id"

#: HIP's bundles, the records that point to them, and the archives to which TheRock moves them.
HIP_FATBIN, HIP_RECORDS, KPACK_REFERENCE = ".hip_fatbin", ".hipFatBinSegment", ".rocm_kpack_ref"

#: The sections of CUDA and HIP in Mach-O, where a segment and a comma precede the name.
MACHO_CUDA_FATBIN, MACHO_HIP_FATBIN = "__nv_fatbin", "__hip_fatbin"

#: LLVM's offload binaries, and their name after ``clang -r --offload-link``.
OFFLOADING, OFFLOADING_RELOCATABLE = ".llvm.offloading", ".llvm.offloading.relocatable"

#: clang-offload-bundler makes a section for each target, ``<prefix><bundle ID>``; DPC++ of 2019 and 2020 another one
#: with the sizes of its images.
BUNDLE_PREFIX, SIZES_PREFIX = "__CLANG_OFFLOAD_BUNDLE__", "__CLANG_OFFLOAD_BUNDLE_SIZE__"

#: All images of a program of newer DPC++, and the tables of images and of their symbols.
SYCL_IMAGES, SYCL_IMAGE_TABLE, SYCL_SYMBOLS = "OFFLOAD_DEVICE_CODE", ".tgtimg", ".tgtsym"

#: The prefix of all sections of GCC's own offloading.
GCC_OFFLOAD = ".gnu.offload_"

#: Sections of fat binaries and bundles; of all containers; of the records about them. ELF, COFF and PE use the same.
FATBINS = (HIP_FATBIN, CUDA_FATBIN, CUDA_RELOCATABLE)
CONTAINERS = (OFFLOADING, *FATBINS)
TABLES = (HIP_RECORDS, CUDA_RECORDS, CUDA_TILE_RECORDS, CUDA_MODULE_IDS, SYCL_IMAGE_TABLE, SYCL_SYMBOLS)

#: bytes of a name that linkers of PE images keep, unless they write a string table (MinGW)
_KEPT = 8


def with_cut(*names: str) -> tuple[str, ...]:
    """Return names, each followed by its first 8 bytes, as PE linkers cut it: ``.nv_fatb`` for ``.nv_fatbin``."""
    return tuple(dict.fromkeys(one for name in names for one in (name, name[:_KEPT])))


#: Sections of objects with code for the device link; PE images truncate names. Sections of clang-offload-bundler are
#: not included: a fat object has one per image, and DPC++ leaves the result of its link in such a section of a program.
DEVICE_LINK_SECTIONS = (*with_cut(CUDA_RELOCATABLE), OFFLOADING_RELOCATABLE)
