"""Damaged host files cost no more than their bytes, and raise nothing but what readers of files raise."""

from __future__ import annotations

import random

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.elf.file import ElfFile
from fatpack.errors import FormatError
from fatpack.io.sources.memory import BytesSource
from fatpack.runtime.evidence import judging
from fatpack.scanner.visit import host_of

HOSTS = ("single.o", "clang_win.obj", "libtwo.so", "k1.rdc.o", "dlink.o")


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
        host = host_of(view)
        if host in ("elf", "coff"):
            assert all(item.code for item in judging.judged(view, host, lambda: {"kernel"}))
            evidence, _ = judging.read(view, host)
            if evidence is not None:
                assert all(item.code for item in judging.verdicts_of(evidence, {"kernel"}))


def test_constructors_that_a_section_claims_without_bytes_are_not_counted() -> None:
    pytest.importorskip("capstone")
    data = bytearray((FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes())
    elf = ElfFile(BytesSource(bytes(data)).view())
    (section,) = [each for each in elf.sections() if elf.name(each) == ".init_array"]
    at = elf.section_field(section.index, "size")
    data[at : at + 8] = (1 << 62).to_bytes(8, "little")
    try:
        evidence, _ = judging.read(BytesSource(bytes(data)).view(), "elf")
    except FormatError:  # pragma: no cover
        pytest.fail("what is damaged raises nothing here")
    assert evidence is not None
    assert evidence.constructors == ()
