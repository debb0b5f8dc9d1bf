"""Containers outside the sections known for them, and data that only looks like one."""

from __future__ import annotations

import random

import pytest
from tests.builders import archive, coff, elf, pe
from tests.laws.rooms import FIXTURES

from fatpack import formats
from fatpack.io.source import BytesSource, Span
from fatpack.model import Container, Finding, Image, Target
from fatpack.scanner import FoundContainer, bare_images, carve, scan

BUNDLE = (FIXTURES / "clang_bundle" / "llvm-22-hip.bundle").read_bytes()
COMPRESSED = (FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle").read_bytes()
BINARIES = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()

#: magics without a container, as in compilers and drivers
STRINGS = (
    b"__CLANG_OFFLOAD_BUNDLE__\0CCOB\0\x10\xff\x10\xad\0\x50\xed\x55\xba" + bytes(99) + b"__CLANG_OFFLOAD_BUNDLE__"
)
DATA = b"xyz" + STRINGS + BUNDLE + b"CCOB" + COMPRESSED + BINARIES + STRINGS


def containers(data: bytes, *, is_deep: bool = True) -> list[FoundContainer]:
    return [item for item in scan(BytesSource(data).view(), deep=is_deep) if isinstance(item, FoundContainer)]


def an_elf(content: bytes = DATA) -> bytes:
    made = elf.Elf()
    made.sections += [elf.Section(".text", b"code"), elf.Section(".rodata", content), elf.Section(".data", b"more")]
    return made.build()


HOSTS = {
    "elf": an_elf(),
    "coff": coff.build([coff.Section(b".text", b"code"), coff.Section(b".rodata", DATA)]),
    "pe": pe.build([pe.Section(b".text", b"code"), pe.Section(b".rodata", DATA)]),
}


@pytest.mark.parametrize("data", HOSTS.values(), ids=HOSTS)
def test_containers_in_data_are_found_with_their_section_and_nothing_else_is(data: bytes) -> None:
    found = containers(data)
    assert b"".join(item.view.tobytes() for item in found) == BUNDLE + COMPRESSED + BINARIES
    assert {item.section for item in found} == {".rodata"}
    assert all(item.container.span.start == data.index(item.view.tobytes()) for item in found)
    assert [item for item in scan(BytesSource(data).view(), deep=True) if isinstance(item, Finding)] == []


def test_members_of_archives_are_searched() -> None:
    data = b"!<arch>\n" + archive.member(b"a.o/", an_elf()) + archive.member(b"b.o/", an_elf(BUNDLE))
    assert [(item.member, item.section) for item in containers(data)][-1] == ("b.o", ".rodata")
    assert len(containers(data)) == len(containers(an_elf())) + 1


def test_any_file_is_searched() -> None:
    assert len(containers(b"some other file" + DATA)) == len(containers(an_elf()))


def test_what_was_found_already_is_not_found_again() -> None:
    made = elf.Elf()
    made.sections += [elf.Section(".hip_fatbin", BUNDLE), elf.Section(".rodata", BUNDLE)]
    assert [item.section for item in containers(made.build())] == [".hip_fatbin", ".rodata"]


def test_a_magic_inside_an_image_is_no_container() -> None:
    image = bytes(10) + BINARIES + bytes(10)
    pieces = formats.get_format("clang-offload-bundle").write(
        Container(
            "clang-offload-bundle",
            0,
            (Image(Target(), "", BytesSource(image).view(), len(image), None, Span(0, 0), attrs={"id": "hip-a-b-c-"}),),
            Span(0, 0),
        )
    )
    nested = b"".join(piece if isinstance(piece, bytes) else piece.tobytes() for piece in pieces)  # type: ignore[union-attr]
    assert BINARIES in nested
    assert [item.container.format for item in containers(an_elf(nested))] == ["clang-offload-bundle"]


def test_a_damaged_container_is_none_here() -> None:
    assert containers(an_elf(BUNDLE[: len(BUNDLE) // 2])) == []


def test_a_file_full_of_false_hits_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carve, "_FALSE_HITS", 10)
    items = list(scan(BytesSource(an_elf(b"CCOB" * 11 + BUNDLE)).view(), deep=True))
    assert [item.code for item in items if isinstance(item, Finding)] == ["FP1005"]
    assert [item for item in items if isinstance(item, FoundContainer)] == []
    assert len(containers(an_elf(b"CCOB" * 10 + BUNDLE))) == 1


def test_sections_are_reported_by_position() -> None:
    sections = carve.SectionIndex([(50, 60, "b", 2), (10, 20, "a", 1), (60, 61, "", 3)])
    assert [sections.at(place) for place in (9, 10, 19, 20, 55, 60, 61)] == [
        (None, None),
        ("a", 1),
        ("a", 1),
        (None, None),
        ("b", 2),
        (None, 3),
        (None, None),
    ]


#: bytes that a search must distinguish from magics: parts of them, their words, and more of these than it checks
PARTS = [*formats.MAGICS, b"__CLANG_OFFLOAD_BUNDLE", b"__", b"PAK", b"P\xedU", b"\xba", b"LE_", b"x" * 60, b"COB" * 99]


@pytest.mark.parametrize("words", ["one word", "too many", "none"])
def test_the_next_magic_is_the_first_of_all(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if words == "none":
        monkeypatch.setattr(carve, "_words", lambda magics: None)
    if words == "too many":
        monkeypatch.setattr(carve, "_FALSE_WORDS", 5)
    monkeypatch.setattr(carve, "_FIRST_BLOCK", 64)
    found = 0
    for seed in range(200):
        chosen = random.Random(seed)
        data = b"".join(chosen.choices(PARTS, k=chosen.randrange(1, 40)))
        magics = list(formats.MAGICS)[: chosen.randrange(1, len(formats.MAGICS) + 1)]
        search, at, step = carve.MagicSearcher(BytesSource(data).view(), magics), 0, chosen.choice((1, 4, 30))
        while at < len(data):
            expected = min((place for magic in magics if (place := data.find(magic, at)) >= 0), default=len(data))
            assert search.after(at) == expected
            at, found = expected + step, found + (expected < len(data))
    assert found > 200


@pytest.mark.parametrize("magics", [tuple(formats.MAGICS), carve._READABLE, bare_images.MAGICS])
def test_all_magics_are_sought_at_once(magics: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(carve.MagicSearcher, "_one_by_one")
    data = random.Random(5).randbytes(2 << 20) + b"".join(magics)
    search, at = carve.MagicSearcher(BytesSource(data).view(), magics), 0
    while at < len(data):
        expected = min((place for magic in magics if (place := data.find(magic, at)) >= 0), default=len(data))
        assert search.after(at) == expected
        at = expected + 1
    assert carve._words((b"abc", b"bca")) is None


@pytest.mark.parametrize("words", ["one word", "too many", "none"])
def test_a_search_notes_the_magics_that_it_passes(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if words == "none":
        monkeypatch.setattr(carve, "_words", lambda magics: None)
    if words == "too many":
        monkeypatch.setattr(carve, "_FALSE_WORDS", 5)
    monkeypatch.setattr(carve, "_FIRST_BLOCK", 64)
    found = 0
    for seed in range(200):
        chosen = random.Random(seed)
        data = b"".join(chosen.choices([*PARTS, *bare_images.MAGICS], k=chosen.randrange(1, 40)))
        view, start = BytesSource(data).view(), chosen.randrange(20)
        passed = carve.PassedMagics(bare_images.MAGICS)
        region = view.slice(min(start, len(data)), max(len(data) - start, 0))
        search, at = carve.MagicSearcher(region, carve._READABLE, passed, start), 0
        while at < len(region):
            at = search.after(at) + 1
        passed.ranges.append((start, len(data)))
        second = passed.searcher(start, len(data))
        if words == "none":
            assert second is None
            continue
        assert second is not None
        plain, at = carve.MagicSearcher(region, bare_images.MAGICS), 0
        while at < len(region):
            assert second.after(at) == plain.after(at)
            at, found = plain.after(at) + 1, found + 1
        assert passed.searcher(start, len(data) + 1) is None
    assert found > 200 or words == "none"


def test_data_is_searched_once_for_containers_and_images(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    take = carve.MagicSearcher._take
    monkeypatch.setattr(carve.MagicSearcher, "_take", lambda self, at: read.append(at) or take(self, at))
    cubin = (FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin").read_bytes()
    data = elf.with_contents(rodata=bytes(1 << 20) + cubin + bytes(1 << 20) + BINARIES + bytes(1 << 20) + cubin)
    forms = [item.format for item in containers(data)]
    assert (forms.count("bare-image"), forms.count("llvm-offload-binary")) == (2, 4)
    assert len(read) == len(set(read))
    monkeypatch.setattr(carve, "_MOST_PASSED", 1)
    read.clear()
    assert [item.format for item in containers(data)] == forms
    assert len(read) > len(set(read))
