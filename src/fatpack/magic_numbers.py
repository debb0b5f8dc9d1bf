"""How files, containers and streams begin: every magic once. No other module writes these bytes.

Rooms do not know each other, and still a host must tell which of its bytes start a container, and a container which of
its images are objects. The layouts of the formats have the fields around a magic; here are the bytes alone.
"""

from __future__ import annotations

# Containers of device code
OFFLOAD_BINARY = b"\x10\xff\x10\xad"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_BUNDLE = b"CCOB"
FATBIN = b"\x50\xed\x55\xba"
KPACK = b"KPAK"
#: the number 0x53594249 of version 1; later versions are offload binaries
SYCLBIN = b"IBYS"
#: the number 0x1EE55A01, in public headers of before CUDA 4
OLD_FATBIN = b"\x01\x5a\xe5\x1e"

# Records that register containers: the numbers 0x466243B1 and 0x48495046, as little-endian hosts have them
CUDA_WRAPPER, HIP_WRAPPER = b"\xb1\x43\x62\x46", b"FPIH"

# Objects and programs
ELF = b"\x7fELF"
#: what DOS programs, and so PE images, start with, and the signature that those lead to
DOS = b"MZ"
PE = b"PE\0\0"
#: COFF has no magic, but for objects that start as "anonymous" ones: machine 0 and 65535 sections, which no real object
#: has. One whose ClassID is the second is a big object.
ANONYMOUS_COFF = b"\0\0\xff\xff"
BIG_COFF_CLASS = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
#: MH_MAGIC and MH_MAGIC_64, as little-endian and as big-endian files have them
MACH_O_32, MACH_O_64 = b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"
BIG_MACH_O_32, BIG_MACH_O_64 = b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf"
MACH_O = (MACH_O_32, MACH_O_64, BIG_MACH_O_32, BIG_MACH_O_64)
#: several Mach-O files in one, with a table of 32 and of 64 bits; Java's classes start with the former too
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

# Compressed and packed files
#: a frame; RFC 8878, 3.1.1
ZSTD = b"\x28\xb5\x2f\xfd"
LZ4 = b"\x04\x22\x4d\x18"
#: the end of the magic of frames that readers of zstd and LZ4 pass over; any of 16 bytes stands before it
SKIPPABLE = b"\x2a\x4d\x18"
GZIP = b"\x1f\x8b\x08"
XZ = b"\xfd7zXZ\0"
BZIP2 = b"BZh"
#: how a block of bzip2 starts, and the end of a stream
BZIP2_BLOCK, BZIP2_END = b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"
#: records of a zip archive, in the order in which they come; APPNOTE 4.3
ZIP, ZIP_ENTRY, ZIP64_END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x06\x06"
ZIP64_LOCATOR, ZIP_END, ZIP_DESCRIPTOR = b"PK\x06\x07", b"PK\x05\x06", b"PK\x07\x08"
SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c"
RPM, RPM_HEADER = b"\xed\xab\xee\xdb", b"\x8e\xad\xe8"
#: the name of the first member of a Debian package, which is an archive
DEB = b"debian-binary"
CPIO = b"07070"
SQUASHFS = b"hsqs"
#: where a tar archive has its magic, and the magic
TAR_AT, TAR = 257, b"ustar"
#: how packages begin, but for tar archives: files that carry other files (an empty zip has its end alone)
PACKAGES = (ZIP, ZIP_END, GZIP, XZ, BZIP2, ZSTD, LZ4, RPM, ARCHIVE + DEB)
