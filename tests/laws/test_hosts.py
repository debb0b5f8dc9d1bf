"""The laws of every host; ``fatpack.testing.cases`` defines most of them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from tests.builders.bulk import Untouchable
from tests.laws.rooms import FIXTURES, HOSTS, host_fixtures

from fatpack import binary
from fatpack.binary.shrink import NewSectionContent, ShrinkRequest
from fatpack.errors import FatpackError
from fatpack.io.source import View
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan
from fatpack.testing import cases as laws
from fatpack.testing.formats import flip_bits, huge_number_cases
from fatpack.testing.helpers import HUGE, damage_places, join_pieces, make_view, number_ends, number_starts, sample

ROOMS = sorted(binary.MODULES)
EDITORS = [name for name in ROOMS if binary.MODULES[name].edits and binary.MODULES[name].verifies]
each_room = pytest.mark.parametrize("name", ROOMS)
each_fixture = pytest.mark.parametrize(
    ("name", "path"), host_fixtures(), ids=[f"{name}-{path.name}" for name, path in host_fixtures()]
)
each_editable = pytest.mark.parametrize(
    ("name", "path"),
    [(name, path) for name, path in host_fixtures() if name in EDITORS],
    ids=[f"{name}-{path.name}" for name, path in host_fixtures() if name in EDITORS],
)
CONTAINER = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()


def test_every_room_has_fixtures() -> None:
    missing, gone = sorted(set(ROOMS) - HOSTS.keys()), sorted(HOSTS.keys() - set(ROOMS))
    assert not missing, f"tests/laws/rooms.py: give HOSTS a folder of small real files for {missing}"
    assert not gone, f"tests/laws/rooms.py: HOSTS has an entry for {gone}, which is no host in hosts.ROOMS"
    empty = sorted(set(ROOMS) - {name for name, _ in host_fixtures()})
    assert not empty, f"the fixture folders of {empty} hold no file"


@each_room
def test_the_door_is_complete(name: str) -> None:
    laws.assert_interface_matches(name)


@each_room
def test_a_room_that_edits_nothing_says_why_and_what_would_work(name: str) -> None:
    """All hosts except archives, of which a member is edited."""
    if binary.MODULES[name].edits or name == "archive":
        return
    problem, hint = binary.edit_refusal(name)
    assert "not edited: " in problem, f"REFUSAL of {name} must give the reason: {problem!r}"
    assert hint, f"REFUSAL of {name} must say what would work instead"


@each_room
def test_the_card_is_honest_and_the_page_exists(name: str) -> None:
    laws.assert_host_info_complete(name)
    page = Path(__file__).parents[2] / "docs" / "hosts" / f"{name}.md"
    assert page.exists(), f"{page.name} is missing: run make docs"
    text = page.read_text(encoding="utf-8")
    stale = [limitation for limitation in binary.get_host(name).DOC.limitations if limitation not in text]
    assert not stale, f"docs/hosts/{page.name} lacks {stale}: run make docs"


@each_fixture
def test_a_host_is_recognised_as_itself_and_nothing_else(name: str, path: Path) -> None:
    laws.assert_detected_as_this_host_alone(name, path.read_bytes(), path.name)


@each_fixture
def test_labels_cover_every_byte_once(name: str, path: Path) -> None:
    laws.assert_host_labels_cover_every_byte_once(name, path.read_bytes())


def _use(data: bytes) -> None:
    """Scan, label and edit; anything but a result or one of our errors fails the test."""
    view, name = make_view(data), laws.scan_and_label(data)
    if name == "raw":
        return
    _relay(name, view)
    if name not in EDITORS:
        return
    room = binary.get_host(name)
    try:
        after = join_pieces(room.embed(view, [CONTAINER]))  # type: ignore[attr-defined]
        room.verify(view, make_view(after))  # type: ignore[attr-defined]
    except FatpackError:
        pass
    try:
        sites = [site.index for site in room.locate(view) if not isinstance(site, Finding)]
        join_pieces(room.remove(view, sites))  # type: ignore[attr-defined]
    except FatpackError:
        pass
    _rewrite(name, view)


def _relay(name: str, view: View) -> None:
    """Take device code out of a linked file, where that is offered."""
    shrinker = binary.get_shrinker(name)
    if shrinker is None:
        return
    try:
        sites = [site for site in binary.get_host(name).locate(view) if not isinstance(site, Finding)]
        contents = [
            NewSectionContent(site.number, [site.data.slice(0, len(site.data) // 4)]) for site in sites if site.index
        ]
        relayed = shrinker.shrink(view, ShrinkRequest(contents, [], {}))
    except FatpackError:
        return
    gone = sum(size for _, size in relayed.cuts)
    assert len(join_pieces(relayed.pieces)) == len(view) - gone, f"relay says that {gone} bytes went"


def _rewrite(name: str, view: View) -> None:
    """Take a host apart and write it anew, where that is offered; it may be large then, but not in memory."""
    try:
        rewriter = binary.get_objcopy(name)
        results = [rewriter.add_sections(view, [("__x", [CONTAINER])]), rewriter.remove_sections(view, "__")]
    except FatpackError:
        return
    for pieces in results:
        if sum(map(len, pieces)) < 1 << 20:
            list(scan(make_view(join_pieces(pieces))))


@each_fixture
def test_truncations_give_a_result_or_a_fatpack_error(name: str, path: Path) -> None:
    data = path.read_bytes()
    for size in sample(number_ends(laws.all_labels(data), 100, last=False), 50, path.name):
        _use(data[:size])


@each_fixture
def test_flipped_bytes_give_a_result_or_a_fatpack_error(name: str, path: Path) -> None:
    """Of two numbers one becomes odd or even, the other negative or huge: the fixtures are little-endian files."""
    data = path.read_bytes()
    table = laws.all_labels(data)
    for at in sample(number_ends(table, 80, last=False)[::2], 30, path.name):
        _use(flip_bits(data, at, 0x01))
    for at in sample(number_ends(table, 80, last=True)[1::2], 30, path.name):
        _use(flip_bits(data, at, 0xFF))


@each_fixture
@pytest.mark.slow
def test_bytes_may_be_damaged_or_be_the_last(name: str, path: Path) -> None:
    """Each byte of a number, and hundreds of the others (all of bitcode), inverted, and the last one of the file."""
    data = path.read_bytes()
    for at in damage_places(laws.all_labels(data), 600 if name != "bitcode" else len(data)):
        _use(data[:at])
        _use(flip_bits(data, at, 0xFF))


@each_fixture
@pytest.mark.slow
def test_the_lowest_bit_of_any_number_may_be_wrong(name: str, path: Path) -> None:
    data = path.read_bytes()
    for at in number_ends(laws.all_labels(data), 300, last=False):
        _use(flip_bits(data, at, 0x01))


@each_fixture
def test_memory_is_bounded_by_the_bytes_present(name: str, path: Path) -> None:
    data = path.read_bytes()
    numbers = sample(number_starts(laws.all_labels(data), len(data), 20), 20, path.name)
    laws.assert_host_memory_bounded(data, huge_number_cases(numbers))


@each_fixture
@pytest.mark.slow
def test_memory_is_bounded_whatever_number_is_huge(name: str, path: Path) -> None:
    data = path.read_bytes()
    laws.assert_host_memory_bounded(data, product(number_starts(laws.all_labels(data), len(data), 80), HUGE))


@each_editable
def test_what_is_embedded_is_found_and_everything_else_stays(name: str, path: Path) -> None:
    room, view = binary.get_host(name), make_view(path.read_bytes())
    before = [item for item in scan(view) if isinstance(item, FoundContainer)]
    after = make_view(join_pieces(room.embed(view, [CONTAINER])))  # type: ignore[attr-defined]
    room.verify(view, after)  # type: ignore[attr-defined]
    found = [item for item in scan(after) if isinstance(item, FoundContainer)]
    assert len(found) == len(before) + 4, f"4 containers embedded beside {len(before)}; the scan finds {len(found)}"
    stored = {_stored(item) for item in found}
    embedded = b"".join(item.view.tobytes() for item in found if item.section == ".llvm.offloading")
    assert embedded.endswith(CONTAINER), "embed must put the container, unchanged, at the end of .llvm.offloading"
    assert {_stored(item) for item in before} <= stored, "embed must keep the containers that were there"


def _stored(found: FoundContainer) -> bytes:
    """Return the bytes of a container; of a fat object, which is the whole file, those of its images."""
    if found.container.is_fat_object:
        return b"".join(image.data.tobytes() for image in found.images)
    return found.view.tobytes()


REWRITTEN = [item for item in host_fixtures() if item[0] in ("elf", "coff")]


@pytest.mark.parametrize(("name", "path"), REWRITTEN, ids=[f"{name}-{path.name}" for name, path in REWRITTEN])
def test_a_host_made_fat_and_slim_again_is_what_writing_it_anew_gives(name: str, path: Path) -> None:
    room, view = binary.get_objcopy(name), make_view(path.read_bytes())
    plain = join_pieces(room.add_sections(view, []))
    fat = join_pieces(room.add_sections(view, [("__A_LAW__1", [CONTAINER]), ("__A_LAW__2", [])]))
    assert CONTAINER in fat, "add_sections must store the content unchanged"
    slim = join_pieces(room.remove_sections(make_view(fat), "__A_LAW__"))
    assert slim == plain, "removing the sections that were added must give what writing the host anew gives"
    assert join_pieces(room.add_sections(make_view(plain), [])) == plain, (
        "writing a host anew twice must change nothing"
    )
    before, after = (
        [_stored(item) for item in scan(data) if isinstance(item, FoundContainer)] for data in (view, make_view(plain))
    )
    assert before == after, "writing a host anew must keep its containers"


@each_editable
def test_edits_do_not_read_the_content_and_accept_views(name: str, path: Path) -> None:
    """The content may be gigabytes: editors pass it on as the pieces they were given."""
    content = Untouchable(CONTAINER).view()
    pieces = list(binary.get_host(name).embed(make_view(path.read_bytes()), [content]))  # type: ignore[attr-defined]
    assert any(piece is content for piece in pieces), "embed must pass on the view it was given, not a copy"


@each_editable
def test_removing_what_was_embedded_leaves_no_device_code(name: str, path: Path) -> None:
    room, view = binary.get_host(name), make_view(path.read_bytes())
    before = {site.index for site in room.locate(view) if not isinstance(site, Finding)}
    fat = make_view(join_pieces(room.embed(view, [CONTAINER])))  # type: ignore[attr-defined]
    indices = [site.index for site in room.locate(fat) if not isinstance(site, Finding) and site.index not in before]
    slim = make_view(join_pieces(room.remove(fat, indices)))  # type: ignore[attr-defined]
    room.verify(fat, slim)  # type: ignore[attr-defined]
    kept, expected = (
        [_stored(item) for item in scan(data) if isinstance(item, FoundContainer)] for data in (slim, view)
    )
    assert kept == expected, "removing what was embedded must leave the containers that were there, and no other"


@each_editable
def test_edit_does_what_replace_and_remove_do(name: str, path: Path) -> None:
    room, view = binary.get_host(name), make_view(path.read_bytes())
    before = {site.index for site in room.locate(view) if not isinstance(site, Finding)}
    fat = make_view(join_pieces(room.embed(view, [CONTAINER])))  # type: ignore[attr-defined]
    (added,) = {site.index for site in room.locate(fat) if not isinstance(site, Finding)} - before
    for content in (None, [CONTAINER * 2], [CONTAINER, CONTAINER]):
        edited = join_pieces(room.edit(fat, {added: content}))  # type: ignore[attr-defined]
        if content is None:
            assert edited == join_pieces(room.remove(fat, [added]))  # type: ignore[attr-defined]
        else:
            assert edited == join_pieces(room.replace(fat, added, content))  # type: ignore[attr-defined]
