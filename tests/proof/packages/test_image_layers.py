"""Layers of edited container images: their files, their extended headers, and the databases that a layer hides."""

from __future__ import annotations

import tarfile

import pytest
from tests.builders import container_images as build
from tests.builders.packages import view_of
from tests.proof.packages.image_forgeries import LAYERS, LIBRARY, SUMS, base, ended, layout, middle, slimmed, sums

from fatpack.errors import FormatError
from fatpack.proof.ledger import DifferenceLog
from fatpack.proof.packages.container_images import prove_image
from fatpack.proof.packages.image_layers import LayerComparison
from fatpack.proof.packages.verdict import PackageProofResult


def proof_of(old: dict[str, bytes], new: dict[str, bytes]) -> PackageProofResult:
    return prove_image(view_of(build.archive(old), "before"), view_of(build.archive(new), "after"))


@pytest.mark.parametrize("size", [1, 4, 5, 512, (1 << 20) + 7])
def test_every_byte_of_another_file_counts(size: int) -> None:
    """It counts whether it becomes larger or smaller."""
    before = b"5" * size
    for at in {0, size // 2, size - 1}:
        for byte in (b"4", b"5", b"6"):
            after = before[:at] + byte + before[at + 1 :]
            old, new = (view_of(build.layer(build.file("data", data)), "layer") for data in (before, after))
            ledger = DifferenceLog()
            LayerComparison("layer 0", old, new, ledger, []).compare()
            assert ledger.count == (byte != b"5"), (at, byte)


@pytest.mark.parametrize(("record", "is_right"), [
    (b"7 ab=c\n", True), (b"6 a=c\n", True), (b"4 =\n", True), (b"6 a=c\n7 ab=c\n", True),
    (b"5 a=c\n", False), (b"0 a=c\n", False), (b"6 a=cd\n", False), (b"x a=c\n", False), (b" a=c\n", False),
    (b"6 a=c\n9 ab=c\n\n\n", True), (b"6 a=c\n6 ab=c\n", False), (b"6\ta=c\n", False), (b"1 \n", False),
])  # fmt: skip
def test_a_record_of_an_extended_header_has_its_length(record: bytes, is_right: bool) -> None:
    head = tarfile.TarInfo("PaxHeader")
    head.type, head.size = tarfile.XHDTYPE, len(record)
    info, data = build.file("data", b"content")
    packed = head.tobuf() + record.ljust(512, b"\0") + info.tobuf() + data.ljust(512, b"\0") + bytes(1024)
    ledger = DifferenceLog()
    comparison = LayerComparison("layer 0", view_of(packed, "a"), view_of(packed, "b"), ledger, [])
    if is_right:
        comparison.compare()
        assert not ledger.count
    else:
        with pytest.raises(FormatError, match="a record of a wrong length"):
            comparison.compare()


def test_a_layer_that_the_new_image_lacks_is_found() -> None:
    image = build.Image([base()], "").layout()
    name = f"blobs/sha256/{build.digest(base())}"
    found = proof_of(image, {path: data for path, data in image.items() if path != name})
    assert f"{name}: file" in [each.what for each in found.differences]


@pytest.mark.parametrize(("upper", "may_stay"), [
    (build.file(SUMS, sums(slimmed())), True), (build.file("var/lib/dpkg/info/.wh.two.md5sums", b""), True),
    (build.file("var/lib/dpkg/.wh.info", b""), True), (build.file("var/lib/dpkg/info/.wh..wh..opq", b""), True),
    (build.file(".wh..wh..opq", b""), True), (build.file("usr/lib/libtwo.so", LIBRARY), True),
    (build.file("usr/lib/.wh.libtwo.so", b""), True), (build.file("usr/.wh.lib", b""), True),
    (build.file("usr/lib/other.so", b""), False), (build.file("var/lib/.wh.dpk", b""), False),
    (build.file("var/lib/dpkg/info/.wh.two", b""), False), (build.file("usr/.wh.libtwo.so", b""), False),
])  # fmt: skip
def test_a_database_that_an_upper_layer_hides_may_stay(upper: tuple[tarfile.TarInfo, bytes], may_stay: bool) -> None:
    """So may one whose library an upper layer hides; any other one must have the new digest."""
    before = layout([base(), middle(), ended(upper)])
    stale = layout([base(), middle(slimmed()), ended(upper)])
    assert proof_of(before, stale).is_proved == may_stay
    assert proof_of(before, layout([base(sums(slimmed())), middle(slimmed()), ended(upper)])).is_proved
    below = layout([ended(upper), base(), middle()]), layout([ended(upper), base(), middle(slimmed())])
    assert not proof_of(*below).is_proved


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_layer_that_is_there_twice_stays_one(order: tuple[int, int]) -> None:
    """Two layers of other bytes with the same files are two, even if each is the one before."""
    ends = [LAYERS[0], LAYERS[0] + bytes(512)]
    changed = [LAYERS[1], *(ends[number] for number in order)]
    found = proof_of(layout([LAYERS[1], LAYERS[0], LAYERS[0]]), layout(changed)).differences
    assert [each.what for each in found if each.what.endswith(": new name")]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, (1 << 20) + 5])
def test_a_table_of_contents_may_be_left_out(size: int) -> None:
    """The table of a layer for lazy pulling is wrong after any change, and whatever its size is, its end is found."""
    table, rest = build.file("stargz.index.json", b"x" * size), build.file("data", b"content")
    packed = build.layer(table, rest)
    old, new = view_of(packed, "old"), view_of(packed[512 + size + -size % 512 :], "new")
    ledger = DifferenceLog()
    compared = LayerComparison("layer 0", old, new, ledger, []).compare()
    assert (ledger.count, compared.paths, compared.same_count) == (0, {"data"}, 1)


@pytest.mark.parametrize("content", [b"text", LIBRARY])
def test_files_that_stay_are_counted(content: bytes) -> None:
    files = [build.file(name, content) for name in ("one", "lib/two.so", "three.so")]
    views = [view_of(build.layer(*files), name) for name in ("old", "new")]
    ledger = DifferenceLog()
    compared = LayerComparison("layer 0", views[0], views[1], ledger, []).compare()
    assert (ledger.count, compared.same_count, compared.changed) == (0, 3, ())


@pytest.mark.parametrize("size", [0, 1, 511, 70_000])
def test_a_size_may_be_written_as_a_binary_number(size: int) -> None:
    """GNU tar writes sizes from 8 GiB on so, and then the first bit of the field is set."""

    def packed(last: bytes) -> bytes:
        info, data = build.file("data", b"a" * max(size - 1, 0) + last[:size])
        head = bytearray(info.tobuf())
        head[124:136] = (1 << 95 | size).to_bytes(12, "big")
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        return bytes(head) + data + bytes(-size % 512 + 1024)

    for last in (b"b", b"c"):
        ledger = DifferenceLog()
        old, new = view_of(packed(b"b"), "before"), view_of(packed(last), "after")
        LayerComparison("layer 0", old, new, ledger, []).compare()
        assert bool(ledger.count) == (size > 0 and last == b"c")
