"""Fuzz targets for registrations of host files: any damage gives a result that is reproducible and can be shown."""

from __future__ import annotations

import struct

from tests.builders import elf
from tools.fuzz import seeds

from fatpack.commands.inspect.registration import registration_record, render_registration
from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.registration import gcc_container
from fatpack.registration.analysis import analyze, model
from fatpack.registration.gcc_offload import find_gcc_offload
from fatpack.scanner import detect_host
from fatpack.testing.helpers import join_pieces

#: Names that show registrations, as in tables of strings.
WORDS = [
    *(name.encode() + b"\0" for name in sorted(model.FUNCTION_NAMES)),
    b"_Z26__device_stub__Z7add_onePiPi\0",
    b"__hip_fatbin_0123456789abcdef\0",
    b".init_array.101\0",
    b".ctors\0",
    b"llvm_offload_entries\0",
    b"omp_offloading_entries\0",
    bytes(8) + b"\1\0\1\0",
    bytes(8) + b"\1\0\2\0",
    *seeds.WORDS,
]


def read_evidence(data: bytes) -> str:
    """Judge a host file, show its registrations, and label it."""
    view = BytesSource(data, "fuzz").view()
    host = detect_host(view)
    if host not in ("elf", "coff", "pe", "archive"):
        return "no host"
    record = registration_record(view)
    lines = list(render_registration(record))
    found = [
        item
        for item in analyze.registration_findings(view, host, lambda: {"sm_80": {"kernel"}, "sm_90": set()})
        if isinstance(item, Finding)
    ]
    for item in found:
        if not view.start <= item.span.start <= item.span.end <= view.end:
            raise AssertionError(f"{item.code} lies at {item.span.start:#x} to {item.span.end:#x}, outside the file")
    reached = view.start
    for label in analyze.registration_labels(view, host):
        if label.span.start < reached or label.span.end > view.end:
            raise AssertionError(f"{label.name} at {label.span.start:#x} lies over another, or behind the end")
        reached = label.span.end
    codes = sorted({item["code"] for item in record["findings"]} | {item.code for item in found})
    kinds = sorted({line.split()[0] for line in lines[1:]})
    return " ".join([host, *(unit["read"] for unit in record["units"][:1]), *codes, *kinds])


def hosts() -> list[bytes]:
    """Return small host files with registrations, and one with all records in few bytes."""
    small = seeds.files("cuda_fatbin/hosts", "elf", "coff", ends=(".o", ".obj", ".so"))
    return [all_records(), *sorted(small, key=len)[:24]]


def all_records() -> bytes:
    """Return an object with a record, entries of both layouts, a descriptor with an image, and a constructor."""
    built = elf.Elf()
    text = built.add(".text", b"\x48\x8d\x3d\0\0\0\0\xe8\0\0\0\0\xc3", flags=elf.ALLOC | 4)
    names = built.add(".rodata", b"kernel\0old\0", flags=elf.ALLOC)
    data = built.add(".data", bytes(8) + struct.pack("<II", 1, 0) + bytes(24) + bytes(32), flags=elf.ALLOC | elf.WRITE)
    images = built.add(".llvm.offloading", bytes(16), flags=elf.ALLOC)
    new = built.add("llvm_offload_entries", struct.pack("<QHHI5Q", 0, 1, 1, 0, 0, 0, 0, 0, 0), flags=elf.ALLOC)
    old = built.add("omp_offloading_entries", bytes(32), flags=elf.ALLOC)
    record = built.add(".nvFatBinSegment", struct.pack("<IIQQ", 0x466243B1, 1, 0, 0), flags=elf.ALLOC | elf.WRITE)
    run = built.add(".init_array", bytes(8), flags=elf.ALLOC | elf.WRITE)
    function = built.symbol("register", text, 0, 13, 2)
    begin, end = (built.symbol(f"__{name}_llvm_offload_entries", 0) for name in ("start", "stop"))
    call = built.symbol("__tgt_register_lib", 0)
    strings, bytes_, place = built.symbol("n", names), built.symbol("i", images), built.symbol("d", data, 8)
    built.symbol("__cudaRegisterFatBinary", 0)
    built.relocations(text, (3, place, 2, -4), (8, call, 4, -4))
    records = [(16, place, 1, 32), (24, begin, 1, 0), (32, end, 1, 0)]
    image = [(40, bytes_, 1, 0), (48, bytes_, 1, 16), (56, begin, 1, 0), (64, end, 1, 0)]
    built.relocations(data, *records, *image)
    built.relocations(new, (16, function, 1, 0), (24, strings, 1, 0))
    built.relocations(old, (0, function, 1, 0), (8, strings, 1, 7))
    built.relocations(record, (8, bytes_, 1, 0))
    built.relocations(run, (0, function, 1, 0))
    return built.build()


def read_gcc_offload(data: bytes) -> str:
    """Read what an ELF file has of GCC's offloading: images inside the file, labels for every byte, the same bytes."""
    view = BytesSource(data, "fuzz").view()
    if detect_host(view) != "elf":
        return "no host"
    words = []
    for item in find_gcc_offload(view):
        if isinstance(item, Finding):
            words.append(item.code)
            continue
        container, stored = item
        if any(image.span.end > len(data) for image in container.images):
            raise AssertionError("an image lies outside the file")
        reached = container.span.start
        for label in gcc_container.labels(view, container):
            if label.span.start != reached:
                raise AssertionError(f"no label, or two, at {reached:#x}")
            reached = label.span.end
        if join_pieces(gcc_container.write(container)) != stored.tobytes():
            raise AssertionError("other bytes are written than were read")
        words.append(str(gcc_container.describe(container)["device"]))
    return " ".join(words) or "none"
