"""Device code taken out of archives, and the check of archives that were edited."""

from __future__ import annotations

import pytest
from tests.builders import linked_elf
from tests.builders.archive import GNU, member
from tests.laws.rooms import FIXTURES

from fatpack import binary, limits
from fatpack.binary import CodeSection, archive, elf
from fatpack.commands.slim.remove import remove_images
from fatpack.edit.editor import editor_for, verify_edited
from fatpack.edit.embed import embed_container, replace_container
from fatpack.errors import FormatError, HostError, LimitExceeded, UsageError
from fatpack.formats.clang_bundle.fat_object import FatObjectEntry
from fatpack.io.source import BytesSource, View
from fatpack.scanner import FoundContainer, scan
from fatpack.selectors.no_match import NothingSelected
from fatpack.selectors.select import Selector
from fatpack.testing.helpers import join_pieces

HOST = (FIXTURES / "demo" / "host.o").read_bytes()
#: Four offload binaries: hip gfx90a:xnack+, cuda sm_80, … (see the golden beside it)
FOUR = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()


def view(data: bytes, name: str = "libx.a") -> View:
    return BytesSource(data, name).view()


def fat() -> bytes:
    return join_pieces(elf.embed(view(HOST), [FOUR]))


def library(*members: tuple[bytes, bytes]) -> View:
    return view(join_pieces(archive.build_archive([(name, view(data)) for name, data in members])))


def archs(whole: View) -> list[tuple[str | None, list[str]]]:
    found = [item for item in scan(whole) if isinstance(item, FoundContainer)]
    return [(item.member, [image.target.arch for image in item.images]) for item in found]


def test_all_members_lose_their_device_code_and_others_stay() -> None:
    whole = library((b"a.o", fat()), (b"b.txt", b"text"), (b"a.o", fat()), (b"plain.o", HOST))
    removal = remove_images(whole, Selector())
    after = view(join_pieces(removal.pieces))
    verify_edited(whole, after)
    assert archs(after) == []
    assert len(removal.removed) == 8
    assert removal.removed[0].startswith("a.o: 0.0 ")
    assert removal.removed[7].startswith("a.o: 7.0 ")
    slim = join_pieces(remove_images(view(fat()), Selector()).pieces)
    assert after.tobytes() == library((b"a.o", slim), (b"b.txt", b"text"), (b"a.o", slim), (b"plain.o", HOST)).tobytes()


def test_a_selection_leaves_the_other_images_of_a_member() -> None:
    whole = library((b"a.o", fat()), (b"b.o", HOST))
    arch = next(arch for _, found in archs(whole) for arch in found if arch)
    after = view(join_pieces(remove_images(whole, Selector(arch=arch)).pieces))
    assert archs(after) == [entry for entry in archs(whole) if entry[1] != [arch]]


def test_all_except_one_arch_go_and_what_has_no_arch_stays() -> None:
    (arch, *others) = [arch for _, found in archs(view(fat())) for arch in found]
    assert "" in others
    after = view(join_pieces(remove_images(view(fat()), Selector(arch=f"!{arch}")).pieces))
    assert [found for _, found in archs(after)] == [[arch], [""]]


def test_containers_are_counted_over_all_members_as_inspect_does() -> None:
    whole = library((b"a.o", fat()), (b"b.o", fat()))
    after = view(join_pieces(remove_images(whole, Selector(container=5)).pieces))
    assert [member for member, _ in archs(after)] == ["a.o"] * 4 + ["b.o"] * 3


def test_archives_in_archives_are_edited_too() -> None:
    inner = library((b"a.o", fat()), (b"b.o", HOST)).tobytes()
    whole = library((b"in.a", inner), (b"c.o", HOST))
    removal = remove_images(whole, Selector())
    after = view(join_pieces(removal.pieces))
    verify_edited(whole, after)
    assert archs(after) == []
    assert removal.removed[0].startswith("in.a(a.o): 0.0 ")


def test_nothing_selected_says_what_is_there() -> None:
    with pytest.raises(NothingSelected, match="matches --arch=sm_1; architectures present: "):
        remove_images(library((b"a.o", fat())), Selector(arch="sm_1"))
    with pytest.raises(NothingSelected, match="no image to remove"):
        remove_images(view(GNU), Selector())


def test_a_linked_file_without_device_code_is_refused_as_an_object_is() -> None:
    for data in (linked_elf.build(()).data, HOST):
        with pytest.raises(NothingSelected, match=r"no image to remove$"):
            remove_images(view(data), Selector())
        with pytest.raises(NothingSelected, match="no image to remove that matches --arch=sm_80"):
            remove_images(view(data), Selector(arch="sm_80"))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (b"m.bc", (FIXTURES / "bitcode" / "clang-22.bc").read_bytes(), r"libx.a\(m.bc\): bitcode is not edited"),
        (b"m.bin", FOUR, r"libx.a\(m.bin\): all images are selected, and nothing would be left"),
        (b"m.dll", (FIXTURES / "pe" / "lld-22-x86_64.dll").read_bytes(), r"libx.a\(m.dll\): PE images are not edited"),
    ],
)
def test_a_member_that_cannot_be_edited_refuses_the_whole(name: bytes, data: bytes, words: str) -> None:
    whole = library((b"a.o", fat()), (b"text", b"text"))
    longer = view(whole.tobytes() + member(name + b"/", data))
    with pytest.raises((HostError, UsageError), match=words):
        remove_images(longer, Selector())
    assert join_pieces(remove_images(longer, Selector(container=0)).pieces).endswith(member(name + b"/", data))


@pytest.mark.parametrize(
    "data", [(FIXTURES / "bitcode" / "clang-22.bc").read_bytes(), (FIXTURES / "pe" / "lld-22-x86_64.dll").read_bytes()]
)
def test_hosts_that_are_never_edited_say_so_for_every_edit(data: bytes) -> None:
    for change in (
        lambda: remove_images(view(data), Selector()),
        lambda: embed_container(view(data), [FOUR]),
        lambda: embed_container(view(data), [FOUR], format="cuda-fatbin"),
        lambda: editor_for(view(data)).edit(view(data), {1: [b""]}),
    ):
        with pytest.raises(HostError, match="not edited"):
            change()


def test_a_damaged_member_refuses_the_whole() -> None:
    broken = bytearray(fat())
    at = broken.find(b"\x10\xff\x10\xad")
    broken[at + 0x40 : at + 0x48] = b"\xff" * 8
    with pytest.raises(FormatError, match="nothing was removed") as caught:
        remove_images(library((b"a.o", fat()), (b"b.o", bytes(broken))), Selector())
    assert "libx.a(b.o)" in caught.value.chain


def test_archives_nested_too_deeply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NESTING", 2)
    data = fat()
    for _ in range(3):
        data = GNU + member(b"in.a/", data)
    with pytest.raises(LimitExceeded, match="nested too deeply"):
        remove_images(view(data), Selector())


def test_an_archive_itself_has_no_place_for_a_container() -> None:
    whole = library((b"a.o", fat()))
    for change in (lambda: embed_container(whole, [FOUR]), lambda: replace_container(whole, view(FOUR))):
        with pytest.raises(HostError, match=r"one of them is edited at a time; write libx.a\(MEMBER\)"):
            change()


def test_verify_refuses_members_that_are_no_sound_edit() -> None:
    whole = library((b"a.o", fat()), (b"b.txt", b"text"))
    verify_edited(whole, whole)
    for number, content in ((0, HOST[:-1] + b"?"), (1, b"TEXT"), (1, b"longer text"), (0, b"")):
        with pytest.raises(HostError):
            verify_edited(whole, view(join_pieces(archive.rewrite(whole, {number: [content]}))))
    with pytest.raises(HostError, match="other members"):
        verify_edited(
            whole, view(whole.tobytes().replace(b"0           0     0     644", b"9           0     0     644"))
        )


def test_verify_looks_into_archives_in_archives() -> None:
    inner = library((b"a.o", fat()), (b"b.txt", b"text"))
    whole = library((b"in.a", inner.tobytes()))
    slim = join_pieces(remove_images(inner, Selector()).pieces)
    verify_edited(whole, view(join_pieces(archive.rewrite(whole, {0: [slim]}))))
    with pytest.raises(HostError):
        verify_edited(whole, view(join_pieces(archive.rewrite(whole, {0: [slim.replace(b"text", b"TEXT")]}))))


def test_contents_of_untouched_members_are_passed_on_as_views() -> None:
    whole = library((b"a.o", fat()), (b"b.txt", b"text" * 1000))
    untouched = next(
        site.data for site in archive.locate(whole) if isinstance(site, CodeSection) and site.member == "b.txt"
    )
    pieces = list(remove_images(whole, Selector()).pieces)
    assert any(
        isinstance(piece, View) and (piece.start, piece.end) == (untouched.start, untouched.end) for piece in pieces
    )


def test_images_of_a_fat_object_are_looked_at_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Counted(type):
        count = 0

        def __instancecheck__(cls, item: object) -> bool:
            Counted.count += 1
            return isinstance(item, FatObjectEntry)

        def __call__(cls, *fields: object) -> FatObjectEntry:
            return FatObjectEntry(*fields)  # type: ignore[arg-type]

    monkeypatch.setattr("fatpack.formats.clang_bundle.fat_object.FatObjectEntry", Counted("SectionEntry", (), {}))
    additions: list[tuple[str, list[View]]] = [
        (f"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx{number}", [view(b"x")]) for number in range(100)
    ]
    whole = view(join_pieces(binary.get_objcopy("elf").add_sections(view(HOST), additions)))
    assert archs(view(join_pieces(remove_images(whole, Selector(arch="gfx1*")).pieces)))[0][1][0] == "gfx0"
    assert 100 <= Counted.count < 200  # once each, and once more each that changes
