"""Magic numbers: the first bytes of files, containers and streams. No other module writes these bytes.

Hosts use them to find containers, and containers to identify images, without importing each other's modules.
"""

from __future__ import annotations

# Containers of device code
OFFLOAD_BINARY = b"\x10\xff\x10\xad"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_BUNDLE = b"CCOB"
FATBIN = b"\x50\xed\x55\xba"
KPACK = b"KPAK"
AKS2 = b"AKS2"
#: the number 0x53594249, of version 1; later versions are offload binaries
SYCLBIN = b"IBYS"
#: a Metal library, with the low byte of its major version: names of Metal's classes begin with the four letters
METALLIB = b"MTLB\x01"
#: the number 0x1EE55A01, in public headers before CUDA 4
OLD_FATBIN = b"\x01\x5a\xe5\x1e"

# Registration records: the numbers 0x466243B1, 0x48495046 and 0x4B504948 in little-endian byte order
CUDA_WRAPPER, HIP_WRAPPER, KPACK_WRAPPER = b"\xb1\x43\x62\x46", b"FPIH", b"HIPK"

# Objects and programs
ELF = b"\x7fELF"
#: start of DOS programs, and so of PE images, and the signature at the offset in the DOS header
DOS = b"MZ"
PE = b"PE\0\0"
#: COFF has no magic, except "anonymous" objects: machine 0 and 65535 sections, which no ordinary object has. An
#: anonymous object with the second value as ClassID is a big object.
ANONYMOUS_COFF = b"\0\0\xff\xff"
BIG_COFF_CLASS = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
#: MH_MAGIC and MH_MAGIC_64, in little-endian and in big-endian files
MACH_O_32, MACH_O_64 = b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"
BIG_MACH_O_32, BIG_MACH_O_64 = b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf"
MACH_O = (MACH_O_32, MACH_O_64, BIG_MACH_O_32, BIG_MACH_O_64)
#: universal files with several Mach-O files, with a table of 32 and of 64 bits; Java classes start with the former too
UNIVERSAL_MACH_O, UNIVERSAL_MACH_O_64 = b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"
WASM = b"\0asm"
XCOFF_32, XCOFF_64 = b"\x01\xdf", b"\x01\xf7"
GOFF = b"\x03\xf0\0"
DXIL = b"DXBC"

# Intermediate code
BITCODE, WRAPPED_BITCODE = b"BC\xc0\xde", b"\xde\xc0\x17\x0b"
SPIRV, BIG_SPIRV = b"\x03\x02\x23\x07", b"\x07\x23\x02\x03"
MLIR_BYTECODE = b"ML\xefR"
LTO_IR = b"\xed\x43\x4e\x7f"
TILE_IR = b"\x7fTileIR\0"

# Archives
ARCHIVE, THIN_ARCHIVE, BIG_ARCHIVE = b"!<arch>\n", b"!<thin>\n", b"<bigaf>\n"
ARCHIVES = (ARCHIVE, THIN_ARCHIVE, BIG_ARCHIVE)

#: a database; SQLite's "Database File Format", 1.3
SQLITE = b"SQLite format 3\0"

#: universal files of Metal, whose byte order readers disagree about
UNIVERSAL_METAL = (b"\xcb\xfe\xba\xbe", b"\xbe\xba\xfe\xcb")

#: serialized engines of TensorRT, and xclbins: programs of AMD's FPGAs and NPUs
TENSORRT, XCLBIN = b"ftrt", b"xclbin2\0"

# Compressed and packed files
#: a frame; RFC 8878, 3.1.1
ZSTD = b"\x28\xb5\x2f\xfd"
LZ4 = b"\x04\x22\x4d\x18"
#: end of the magic of skippable frames of zstd and LZ4; it follows one of 16 bytes
SKIPPABLE = b"\x2a\x4d\x18"
GZIP = b"\x1f\x8b\x08"
XZ = b"\xfd7zXZ\0"
BZIP2 = b"BZh"
#: start of a block of bzip2, and the end of a stream
BZIP2_BLOCK, BZIP2_END = b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"
#: records of a zip archive, in their order in the file; APPNOTE 4.3
ZIP, ZIP_ENTRY, ZIP64_END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x06\x06"
ZIP64_LOCATOR, ZIP_END, ZIP_DESCRIPTOR = b"PK\x06\x07", b"PK\x05\x06", b"PK\x07\x08"
SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c"
RPM, RPM_HEADER = b"\xed\xab\xee\xdb", b"\x8e\xad\xe8"
#: name of the first member of a Debian package, which is an archive
DEB = b"debian-binary"
CPIO = b"07070"
SQUASHFS = b"hsqs"
#: offset of the magic of a tar archive, and the magic
TAR_AT, TAR = 257, b"ustar"
#: magics of packages, which are files that contain other files, except tar archives (an empty zip has only its end)
PACKAGES = (ZIP, ZIP_END, GZIP, XZ, BZIP2, ZSTD, LZ4, RPM, ARCHIVE + DEB)
