"""Damaged host files cost no more than their bytes, and raise nothing but what readers of files raise."""

from __future__ import annotations

import random

import pytest
from tests.builders import elf
from tests.laws.rooms import FIXTURES

from fatpack.binary.elf.file import ElfFile
from fatpack.errors import FormatError
from fatpack.io.source import BytesSource
from fatpack.main import main
from fatpack.model import Finding
from fatpack.registration.analysis import analyze, calls, references
from fatpack.registration.analysis.counts import RegistrationCounts
from fatpack.registration.analysis.registers import STACK, RegisterState
from fatpack.scanner.context import detect_host

HOSTS = ("single.o", "clang_win.obj", "clang_win.dll", "libtwo.so", "libtwo.stripped.so", "k1.rdc.o", "dlink.o")


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", HOSTS)
def test_any_damage_gives_an_answer(name: str) -> None:
    pytest.importorskip("capstone")
    whole = (FIXTURES / "cuda_fatbin" / "hosts" / name).read_bytes()
    chance = random.Random(name)
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 2, 8))):
            at = chance.randrange(len(data) - 8)
            data[at : at + 8] = chance.choice((bytes(8), b"\xff" * 8, b"\x7f" * 8, chance.randbytes(8)))
        view = BytesSource(bytes(data)).view()
        host = detect_host(view)
        if host in ("elf", "coff"):
            assert all(
                isinstance(item, Finding | RegistrationCounts)
                for item in analyze.registration_findings(view, host, lambda: {"": {"kernel"}})
            )
        if host in ("elf", "coff", "pe"):
            assert all(
                isinstance(item, Finding | RegistrationCounts)
                for item in analyze.registration_findings(view, host, lambda: {"": {"kernel"}})
            )
            evidence, _ = analyze.read_evidence(view, host)
            if evidence is not None:
                assert all(item.code for item in analyze.findings_from_evidence(evidence, {"": {"kernel"}}))


def test_constructors_that_a_section_claims_without_bytes_are_not_counted() -> None:
    pytest.importorskip("capstone")
    data = bytearray((FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes())
    host = ElfFile(BytesSource(bytes(data)).view())
    (section,) = [each for each in host.sections() if host.name(each) == ".init_array"]
    at = host.section_field(section.index, "size")
    data[at : at + 8] = (1 << 62).to_bytes(8, "little")
    try:
        evidence, _ = analyze.read_evidence(BytesSource(bytes(data)).view(), "elf")
    except FormatError:  # pragma: no cover
        pytest.fail("what is damaged raises nothing here")
    assert evidence is not None
    assert evidence.constructors == ()


def shared(count: int, elf_type: int, kind: int) -> bytes:
    """Return a file with many symbol tables, all of which name one table of strings and one place of the file."""
    built = elf.Elf(type=elf_type)
    strings = built.add(".strtab", b"\0__cudaPopCallConfiguration\0".ljust(1 << 16, b"x"), type=elf.STRTAB)
    rows = elf.Elf().pack("IBBHQQ", 1, 0x12, 0, 0, 0, 0) * 100
    for number in range(count):
        built.add(".symtab", b"" if number else rows, type=kind, link=strings)
    return over_each_other(built.build(), strings + 1, count)


def over_each_other(data: bytes, first: int, count: int) -> bytes:
    """Return a file whose sections from one on, so many, all have the bytes of that one."""
    section = ElfFile(BytesSource(data).view()).section(first)
    for number in range(first + 1, first + count):
        data = elf.with_section(data, number, offset=section.offset, size=section.size)
    return data


class Reading(BytesSource):
    """Bytes that count how many of them are read."""

    count = 0

    def read(self, offset: int, size: int) -> bytes:
        self.count += size
        return super().read(offset, size)


@pytest.mark.parametrize(
    ("elf_type", "kind", "codes"), [(elf.SHARED, 11, ["FP3041"]), (elf.RELOCATABLE, elf.SYMTAB, [])]
)
def test_headers_that_share_their_bytes_are_read_once(elf_type: int, kind: int, codes: list[str]) -> None:
    pytest.importorskip("capstone")
    data = shared(200, elf_type, kind)
    source = Reading(data)
    found = list(analyze.registration_findings(source.view(), "elf", lambda: {"": {"kernel"}}))
    assert source.count < 16 * len(data)
    assert [item.code for item in found] == codes
    source = Reading(data)
    analyze.read_evidence(source.view(), "elf")
    assert source.count < 16 * len(data)


def test_sections_that_lie_over_each_other_are_kept_once() -> None:
    built = elf.Elf(type=elf.SHARED)
    strings = built.add(".dynstr", b"\0cudaMalloc\0__cudaPopCallConfiguration\0", type=elf.STRTAB)
    built.add(".dynsym", elf.Elf().pack("IBBHQQ", 12, 0x12, 0, 0, 0, 0), type=11, link=strings)
    for number in range(100):
        built.add(
            "cuda_offloading_entries", b"" if number else bytes(1 << 16), flags=elf.ALLOC, addr=(number + 1) << 20
        )
    data = over_each_other(built.build(), 3, 100)
    source = Reading(data)
    assert [item.code for item in analyze.registration_findings(source.view(), "elf", lambda: None)] == ["FP3041"]
    assert source.count < 16 * len(data)


def test_what_limits_leave_out_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("capstone")
    path = str(FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so")
    assert main(["inspect", "--runtime", path]) == 0
    whole = capsys.readouterr().out
    assert "registered: 5 kernels" in whole
    assert "not followed" not in whole
    monkeypatch.setattr(calls, "FOLLOWED", 0)
    monkeypatch.setattr(calls, "FOLLOWED_LAUNCHES", 0)
    assert main(["inspect", "--runtime", path]) == 0
    cut = capsys.readouterr().out
    assert "5 more kernels: the registration was not read" in cut
    assert "not followed: 9 functions that launch or register" in cut
    monkeypatch.setattr(calls, "_MOST", 0)
    monkeypatch.setattr(references, "PART", 64)
    assert main(["inspect", "--runtime", path]) == 0
    assert "not followed: " in capsys.readouterr().out


def test_jumps_without_end_cost_their_bytes() -> None:
    state = RegisterState((0,), (0,), 31)
    for place in range(2 * 256):
        state.store(STACK + 8 * place, 8, place)
    assert len(state.places) == 256
    for at in range(0, 100_000, 4):
        state.branch(at, 1 << 30 | at)
    assert sum(len(registers) + len(places) for registers, places in state._waiting.values()) <= 1 << 20
