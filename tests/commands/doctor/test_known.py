"""Known bugs: a file that each of them made, or trips over, and that healthy files show none."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import elf as build
from tests.builders import fatbin
from tests.builders.kpack_site import Site
from tests.laws.rooms import FIXTURES
from tests.registration.analysis.test_verdicts import evidence

import fatpack
from fatpack import binary
from fatpack.commands.doctor.model import KnownBugRow, known_bugs
from fatpack.commands.doctor.whole_file import measure_extent, overflow_findings
from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle import byte_labels
from fatpack.formats.clang_bundle.compressed import new_digest
from fatpack.io.source import Span
from fatpack.main import main
from fatpack.model import Container, Image, Target
from fatpack.registration.analysis import findings
from fatpack.testing.helpers import join_pieces, make_view

BUNDLES = FIXTURES / "clang_bundle"
HOST = "host-x86_64-unknown-linux-gnu-"


def image(data: bytes, spelling: str = "", **facts: str) -> Image:
    target = Target(facts.get("triple", ""), facts.get("arch", ""), facts.get("offload", "none"), spelling)
    attrs = {"id": spelling} if spelling else {}
    return Image(target, "", make_view(data), len(data), len(data), Span(0, len(data)), attrs=attrs)


def bundle(*entries: tuple[str, bytes], align: str = "1") -> bytes:
    images = tuple(image(data, spelling) for spelling, data in entries)
    return join_pieces(clang_bundle.write(Container("", 0, images, Span(0, 0), attrs={"align": align})))


def compressed(content: bytes) -> bytes:
    """Return a bundle in a zlib stream that holds it as it is, so that a magic in it stays one."""
    digest = new_digest(len(content))
    digest.update(content)
    stream = zlib.compress(content, 0)
    return struct.pack("<4sHHQQ8s", b"CCOB", 3, 0, 32 + len(stream), len(content), digest.digest()) + stream


def damaged(name: str, at: int, size: int | None = None) -> bytes:
    data = bytearray((BUNDLES / name).read_bytes())
    data[at] ^= 0xFF
    return bytes(data[:size])


def old_kinds() -> bytes:
    data = bytearray((FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes())
    at = struct.unpack_from("<Q", data, 16)[0]
    struct.pack_into("<H", data, at + 2, 3)
    return bytes(data)


def glued() -> bytes:
    elf = build.Elf()
    name, size = "__CLANG_OFFLOAD_BUNDLE__", "__CLANG_OFFLOAD_BUNDLE_SIZE__"
    for id, content, recorded in (("sycl-spir64-unknown-unknown-sycldevice", b"11\n222\n", 9), (HOST[:-1], b"\0", 1)):
        elf.add(name + id, content)
        elf.add(size + id, struct.pack("<Q", recorded))
    return elf.build()


HIP = "hipv4-amdgcn-amd-amdhsa--gfx906"

#: name of the bug → a file
FILES: dict[str, Callable[[], bytes]] = {
    "zlib-ng": lambda: damaged("fatpack-v3-zlib.bundle", -20),
    "cut-at-magic": lambda: (BUNDLES / "llvm-22-v3-zstd.bundle").read_bytes()[:198],
    "magic-inside": lambda: compressed(bundle((HOST, b""), (HIP, b"..CCOB.."))),
    "no-total-size": (BUNDLES / "fatpack-v1-zstd.bundle").read_bytes,
    "old-offload-kinds": old_kinds,
    "empty-entry-behind-the-end": lambda: (BUNDLES / "llvm-22-empty-last.bundle").read_bytes()[:208],
    "long-table": lambda: bundle(
        (HOST, b""), *((f"{HIP[:-6]}gfx{number}", b"x") for number in range(80)), align="4096"
    ),
    "no-host-entry": lambda: bundle((HIP, b"code")),
    "doubled-host-id": lambda: bundle((HOST * 2, b""), (HIP, b"code")),
    "glued-images": glued,
    "pre-release-fatbin": lambda: fatbin.fatbin(fatbin.entry(fatbin.cubin(), kind=0x77)),
    "zeros-behind-the-last": lambda: fatbin.fatbin(fatbin.entry(fatbin.cubin())) + bytes(64),
    "padded-section": lambda: (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes() + bytes(16),
    "compressed-sycl-images": (FIXTURES / "elf" / "lld-22-sycl.so").read_bytes,
    "older-cir": (FIXTURES / "cir" / "op-string.mlir").read_bytes,
}

#: name of the bug → what is installed
FOLDERS: dict[str, Callable[[Site], object]] = {
    "kpack-folder-missing": lambda site: site.archive("other/.kpack/x_gfx90a.kpack", [("core/libx.so#0", "gfx90a")]),
    "kpack-archive-missing": lambda site: site.archive(".kpack/y_gfx90a.kpack", [("core/libx.so#0", "gfx90a")]),
    "kpack-arch-missing": lambda site: (
        site.archive(".kpack/x_gfx90a.kpack", [("core/libx.so#0", "gfx90a")]),
        site.archive(".kpack/y_gfx1100.kpack", [("core/liby.so#0", "gfx1100")]),
    ),
    "kpack-first-archive-decides": lambda site: (
        site.archive(".kpack/x_gfx90a.kpack", [("core/libx.so#0", "gfx90a")]),
        site.archive(".kpack/x_gfx90a:xnack-.kpack", [], archs=["gfx90a:xnack-"]),
    ),
}

ELSEWHERE = {"folded-stubs", "relocations-truncated"}


def names(found: fatpack.DoctorResult) -> list[str]:
    return [bug.name for bug in found.known_bugs]


def test_every_known_bug_has_a_file() -> None:
    assert {bug.name for bug in known_bugs()} == {*FILES, *FOLDERS, *ELSEWHERE}


@pytest.mark.parametrize("name", FILES)
def test_a_bug_is_named_with_its_thread(name: str, tmp_path: Path) -> None:
    file = tmp_path / "x.bin"
    file.write_bytes(FILES[name]())
    found = fatpack.doctor(file)
    assert name in names(found)
    (bug,) = [each for each in found.known_bugs if each.name == name]
    assert bug.paths == (str(file),)
    assert bug.sources
    assert set(bug.evidence) <= {item.code for item in found.findings} | set(_row(name).facts)


def _row(name: str) -> KnownBugRow:
    return next(bug for bug in known_bugs() if bug.name == name)


@pytest.mark.parametrize("name", ["no-total-size", "empty-entry-behind-the-end", "older-cir", "zeros-behind-the-last"])
def test_what_is_written_anew_as_advised_shows_the_bug_no_more(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_bytes(FILES[name]())
    (command,) = re.findall(r"fatpack (convert(?: FILE)?(?: --format [a-z]+)?)", _row(name).advice)
    assert main([*command.split(), "-o", "new"]) == 0
    assert name not in names(fatpack.doctor("new"))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_bug_of_packages_is_named_for_their_folder(name: str, tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.library("core/libx.so", ["../.kpack/x_@GFXARCH@.kpack"])
    if name == "kpack-arch-missing":
        site.library("core/liby.so", ["../.kpack/y_@GFXARCH@.kpack"])
    FOLDERS[name](site)
    found = fatpack.doctor(tmp_path)
    assert name in names(found)
    assert found.exit_code in (1, 3)


def test_folded_stubs_are_named_by_the_verdict_on_them() -> None:
    found = list(findings.registration_problems(evidence(0, is_linked=True)))
    assert _row("folded-stubs").evidence(found, ()) == ("FP3048",)


@pytest.mark.parametrize(("size", "code"), [(1 << 29, None), (3 << 29, "FP3606"), (5 << 29, "FP3605")])
def test_an_object_whose_device_code_is_too_large_to_link(size: int, code: str | None, tmp_path: Path) -> None:
    """pytorch/pytorch#48588: what the loaded sections have is more than relocations reach."""
    elf = build.Elf()
    elf.add(".nv_fatbin", bytes(16), flags=build.ALLOC)
    elf.add(".text", bytes(16), flags=build.ALLOC | 4)
    path = tmp_path / "big.o"
    path.write_bytes(build.with_section(elf.build(), 1, size=size))
    os.truncate(path, size + 4096)
    with fatpack.open(path) as file:
        assert binary.detect_host(file.view) == "elf"
        found = measure_extent(file.view, "elf", {1})
        assert found is not None
        assert (found.is_linked, found.device, found.reached) == (False, size, size + 16)
        said = list(overflow_findings(found, file.view, {"sm_50": size // 2, "sm_90": size // 4}))
    assert [item.code for item in said] == ([] if code is None else [code])
    if said:
        assert re.search(r"sm_50 \(.*\), sm_90", said[0].hint)
    assert _row("relocations-truncated").evidence(said, ()) == (("FP3605",) if code == "FP3605" else ())


@pytest.mark.parametrize(("data_at", "device_at"), [(0xD000, 0x2000), (0x2000, 0x3000)], ids=["between", "behind"])
def test_device_code_behind_data_does_not_count_as_distance(data_at: int, device_at: int, tmp_path: Path) -> None:
    """``span`` is no size in memory: only between code and data device code pushes these apart."""
    device = (FIXTURES / "cuda_fatbin" / "v112_all_ident.fatbin").read_bytes()
    elf = build.Elf(type=build.SHARED)
    elf.add(".text", bytes(16), flags=build.ALLOC | 4, addr=0x1000)
    elf.add(".nv_fatbin", device, flags=build.ALLOC, addr=device_at)
    elf.add(".data", bytes(16), flags=build.ALLOC, addr=data_at)
    path = tmp_path / "x.so"
    path.write_bytes(elf.build())
    (reach,) = fatpack.doctor(path).to_dict()["reaches"]
    assert (reach["is_linked"], reach["span"], reach["device"]) == (True, data_at + 16 - 0x1000, len(device))


def test_healthy_files_show_no_known_bug() -> None:
    files = sorted((FIXTURES / "cuda_fatbin").glob("v1*.fatbin"))
    found = fatpack.doctor(path for path in files if "ptx32" not in path.name)
    assert found
    assert (names(found), found.findings and {item.severity for item in found.findings}) == ([], {"note"})


def test_what_the_table_names_exists() -> None:
    from fatpack.findings import CODES

    text = byte_labels.symptoms.__doc__ or ""
    for bug in known_bugs():
        assert bug.match or bug.facts, f"{bug.name}: nothing recognises it"
        assert bug.sources, f"{bug.name}: say where it is known from"
        assert all(match.code in CODES for match in bug.match), bug.name
        assert all(f"``{fact}``" in text for fact in bug.facts), (
            f"{bug.name}: the docstring of symptoms says no such fact"
        )
        for source in bug.sources:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+(#\d+|: .+)|observed: .+", source), source
