"""Seeds of fuzzing: the small real files of the tests, and the words of the formats."""

from __future__ import annotations

from pathlib import Path

from fatpack import magic_numbers

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"

#: Files that once made a target fail, in a folder for each target.
FOUND = FIXTURES / "fuzz"

#: Larger files make a target slow, and find nothing more.
LARGEST = 24 << 10


def found(target: str) -> list[bytes]:
    """Return the files that once made a target fail."""
    folder = FOUND / target
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def files(*folders: str, ends: tuple[str, ...] = ("",)) -> list[bytes]:
    """Return the contents of the fixtures below some folders, smallest first."""
    found = []
    for folder in folders:
        for path in sorted((FIXTURES / folder).rglob("*")):
            is_record = path.name.endswith((".inspect.json", ".md")) or path.name == "expected.json"
            if path.is_file() and not is_record and path.name.endswith(ends):
                found.append(path.read_bytes())
    return sorted({data for data in found if 0 < len(data) <= LARGEST}, key=lambda data: (len(data), data))


def packages() -> list[bytes]:
    """Return small packages of every kind, made as in the tests, because no fixture has them."""
    from tests.builders import packages as build

    files = {"pkg/k.co": b"device code " * 9, "b": b"", "../c": b"1"}
    made = [build.zipped(files, method) for method in (0, 8, 12, 14)]
    made += [
        build.zstd_zip(files),
        build.wide_zip(files),
        build.streamed_zip(files),
        b"#!/bin/sh\n" + build.zipped(files),
    ]
    archives = [build.tarred(files, format).rstrip(b"\0") + bytes(1024) for format in (0, 1, 2)]
    made += archives
    for pack in (build.COMPRESSORS | build.LZMA).values():
        made += [pack(archives[0]), pack(b"device code " * 9) * 2, build.rpm(files, pack)]
    made += [build.rpm(files), build.rpm(files, stripped=True), build.debian({"data.tar": archives[0]})]
    return sorted({data for data in made if len(data) <= LARGEST}, key=lambda data: (len(data), data))


def linked() -> list[bytes]:
    """Return linked programs: one of every word size and byte order, made as in the tests, and small real ones."""
    from tests.builders.handmade_elf import LinkedElf

    kinds = [(bits, order) for bits in (32, 64) for order in ("little", "big")]
    made = [LinkedElf(bits, order, machine=62 if bits == 64 else 3).build() for bits, order in kinds]
    return [*files("elf", "pe", "cuda_fatbin/hosts", ends=(".so", ".dll", ".exe", ".pyd")), *made]


#: All magics, and names of containers and sections: bytes that readers search for.
WORDS = [
    *sorted({value for name, value in vars(magic_numbers).items() if name.isupper() and isinstance(value, bytes)}),
    b".llvm.offloading",
    b".hip_fatbin",
    b".nv_fatbin",
    b".nvFatBinSegment",
    b".hipFatBinSegment",
    b"__CLANG_OFFLOAD_BUNDLE__START__ ",
    b"__CLANG_OFFLOAD_BUNDLE__END__ ",
    b"hip-amdgcn-amd-amdhsa--gfx90a",
    b"host-x86_64-unknown-linux-gnu",
    b"#1/20           ",
    b"/0              ",
    b"//              ",
]

#: Words of MLIR.
TEXT_WORDS = [
    *(b"{", b"}", b"(", b")", b"<", b">", b"[", b"]", b'"', b"//", b"/*", b"{-#", b"#-}", b"->", b"\\22", b"\\"),
    *(b"module", b"builtin.module", b"cir.func", b"cir.global", b"cir.offload.container", b"cir.offload.module"),
    *(b"loc(", b"#loc", b"#cir.", b"!cir.", b"sym_name = ", b"unit", b"^bb0:", b" : () -> ()", b"\r\n", b"\0", b"\xff"),
]
