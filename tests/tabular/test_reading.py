"""Rows say of every file what `inspect --json` says of it, and end with the row of the file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.builders import elf
from tests.builders.policy_files import library
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import limits
from fatpack.commands.inspect.record import InspectOptions, make_file_record
from fatpack.exit_codes import exit_code_for_findings
from fatpack.formats.cuda_fatbin import fast_path
from fatpack.io.open import open_source
from fatpack.tabular.columns import MEANING, TABLES, ImageRow, KernelRow, RowOptions
from fatpack.tabular.read_file import read_rows

FILES = sorted(
    path
    for path in FIXTURES.rglob("*")
    if path.is_file() and not path.name.endswith((".inspect.json", ".toml", ".md", ".sh", ".txt", ".py"))
)
FOUR = FIXTURES / "offload_binary" / "llvm-22-four.bin"

#: columns that have the name and the value that they have in the record of `inspect`
SAME = ("offload", "triple", "arch", "form", "stored_form", "stored_size", "size", "compression")

#: columns of what containers state, however much is read
STATED = (
    "section",
    "member",
    "chain",
    "offset",
    "triple",
    "arch",
    "stored_form",
    "stored_size",
    "size",
    "compression",
    "stored_kind",
    "ptx_version",
    "binary",
)


def _images(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for number, container in enumerate(record["containers"]):
        for image in container["images"]:
            position = f"{prefix}{number}.{image['index']}"
            yield position, container, image
            yield from _images(image, f"{position}/")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_rows_say_what_inspect_says(path: Path) -> None:
    with open_source(str(path)) as source:
        record = make_file_record(source.view(), InspectOptions(kernels=True))
        rows = list(read_rows(source.view(), RowOptions(kernels=True, digests=True)))
        kernel_rows = list(read_rows(source.view(), RowOptions(of="kernels")))
        listed = list(read_rows(source.view(), RowOptions()))
    *images, last = rows
    by_position = {row.position: row for row in images if row.container is not None}
    for row in listed:
        if row.position in by_position:
            read = by_position[row.position]
            assert [getattr(row, name) for name in STATED] == [getattr(read, name) for name in STATED]
    assert {row.row for row in images} <= {"image"}
    assert (last.row, last.path, last.file_size, last.count) == ("file", str(path), record["size"], len(images))
    assert last.host == record["host"]
    assert last.error is None
    findings = record["findings"] + record.get("unlisted_findings", [])
    codes = {code for row in rows for code in row.findings}
    assert codes == {item["code"] for item in findings}
    assert last.exit_code == exit_code_for_findings((item["severity"], item["code"]) for item in findings)
    contained = [row for row in images if row.container is not None]
    expected = list(_images(record))
    assert [row.position for row in contained] == [position for position, _, _ in expected]
    for row, (_, container, image) in zip(contained, expected, strict=True):
        assert isinstance(row, ImageRow)
        assert {name: getattr(row, name) for name in SAME} == {name: image[name] for name in SAME}
        assert (row.container_format, row.section, row.member) == (
            container["format"],
            container["section"],
            container["member"],
        )
        assert image["offset"] in (None, row.offset)
        assert row.containers == len(image["containers"])
        assert row.stored_kind == image["attrs"].get("kind")
        assert row.kernel_count in (None, len(image["kernels"]))
        most = [fact["registers"] for fact in image.get("kernel_facts", ()) if fact["registers"]]
        assert row.registers_max == max(most, default=None)
    bare = [row for row in images if row.container is None]
    members = record.get("member_images", [])
    assert [row.member for row in bare] == [item["member"] for item in members] + [None] * bool(record["image"])
    names = [name for _, _, image in expected for name in image["kernels"]]
    names += [name for item in members for name in item["kernels"]]
    names += record["image"]["kernels"] if record["image"] else []
    assert [row.kernel for row in kernel_rows[:-1] if isinstance(row, KernelRow)] == names
    assert (kernel_rows[-1].row, kernel_rows[-1].count) == ("file", len(names))
    assert {code for row in kernel_rows for code in row.findings} == codes


@pytest.mark.parametrize("path", FILES[::7], ids=lambda path: path.name)
def test_digests_are_of_the_bytes_that_extraction_writes(path: Path) -> None:
    rows = [row for row in fatpack.rows(path, digests=True) if row.row == "image" and row.container is not None]
    with fatpack.open(path) as file:
        for row, image in zip(rows, file.images(), strict=True):
            if row.sha256 is not None:
                assert row.sha256 == hashlib.sha256(image.data.tobytes()).hexdigest()
                assert row.size == len(image.data)


def test_a_listing_reads_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    path = FIXTURES / "cuda_fatbin" / "recorded" / "v130_default.fatbin"
    rows = list(fatpack.rows(path))
    assert any(row.compression for row in rows)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a listing inflates nothing that its container names")

    monkeypatch.setattr("fatpack.tabular.read_file.inflate_image", refuse)
    assert list(fatpack.rows(path)) == rows
    with pytest.raises(AssertionError):
        list(fatpack.rows(path, kernels=True))


def test_a_listing_makes_no_records_of_cubins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library has thousands of entries, and what is made of their headers on demand takes as long as listing them."""
    asked = []
    made = fast_path._parts

    def noted(*values: Any) -> Any:
        asked.append(values)
        return made(*values)

    monkeypatch.setattr(fast_path, "_parts", noted)
    cubins = tmp_path / "cubins.so"
    cubins.write_bytes(library("80 90", "90a 100f"))
    assert [row.offset for row in fatpack.rows(cubins) if row.row == "image" and row.offset]
    assert asked == []
    stored = FIXTURES / "cuda_fatbin" / "recorded" / "v130_default.fatbin"
    forms = [row.form for row in fatpack.rows(stored) if row.row == "image"]
    assert "cubin" in forms
    assert len(asked) == forms.count("ptx")


def test_a_file_that_cannot_be_opened_is_a_row_with_its_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing.so"
    (row,) = fatpack.rows(missing)
    assert (row.row, row.path, row.exit_code, row.count) == ("file", str(missing), 5, 0)
    assert row.error == f"{missing}: No such file or directory"
    (kernel_row,) = fatpack.rows(missing, of="kernels")
    assert isinstance(kernel_row, KernelRow)
    assert kernel_row.error == row.error
    assert list(fatpack.rows(tmp_path)) == []


def test_a_file_that_ends_while_it_is_read_keeps_the_rows_before(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(FOUR.read_bytes() + bytes(1 << 20))
    rows = fatpack.rows(path, digests=True)
    first = next(rows)
    with open(path, "r+b") as file:
        file.truncate(100)
    *_, last = rows
    assert first.row == "image"
    assert last.row == "file"
    assert (last.error, last.exit_code) != (None, 0)


def test_images_that_share_their_bytes_are_hashed_once_and_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    data = FOUR.read_bytes()
    monkeypatch.setattr("fatpack.limits.INFLATED", 12)
    *images, last = fatpack.rows(data, digests=True)
    assert [row.sha256 is None for row in images] != [False] * len(images)
    assert "FP1005" in last.findings
    assert last.exit_code == 3


def test_the_row_of_a_file_says_what_was_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    made = elf.Elf()
    made.add(".llvm.offloading", FOUR.read_bytes())
    made.add(".text", b"code")
    assert (list(fatpack.rows(made.build()))[-1].searched, list(fatpack.rows(made.build()))[-1].not_searched) == (
        "places",
        4,
    )
    deep = list(fatpack.rows(made.build(), deep=True))[-1]
    assert (deep.searched, deep.not_searched) == ("everything", 0)
    nothing = b"no device code" * 100
    last = list(fatpack.rows(nothing))[-1]
    assert (last.searched, last.not_searched) == ("everything", 0)
    monkeypatch.setattr(limits, "SEARCHED", 100)
    (large,) = fatpack.rows(nothing)
    assert (large.searched, large.not_searched) == ("places", len(nothing))


def test_a_thorough_search_takes_the_code_of_files_in_which_nothing_is_found() -> None:
    hidden = elf.with_contents(text=bytes(4096) + FOUR.read_bytes())
    counts = []
    for thorough in (True, False):
        with open_source(hidden) as source:
            counts.append(list(read_rows(source.view(), RowOptions(thorough=thorough)))[-1].count)
    assert counts == [4, 0]


def test_every_column_has_a_meaning_and_every_meaning_a_column() -> None:
    names = {name for kind, _ in TABLES.values() for name in kind._fields}
    assert names == MEANING.keys()


def test_wrong_arguments_are_errors_at_once() -> None:
    with pytest.raises(fatpack.UsageError, match="rows are of images or kernels"):
        fatpack.rows(FOUR, of="files")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="of must be a text"):
        fatpack.rows(FOUR, of=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["cuda/cubin/k1.cuda13.0.sm_80.cubin", "cuda_fatbin/recorded/v130_none.fatbin"])
def test_rows_of_images_and_of_kernels_come_in_one_reading(name: str) -> None:
    with open_source(str(FIXTURES / name)) as source:
        both = list(read_rows(source.view(), RowOptions(digests=True, each_kernel=True)))
        images = list(read_rows(source.view(), RowOptions(digests=True, kernels=True)))
        kernels = list(read_rows(source.view(), RowOptions(of="kernels", digests=True)))
    data = [row.data_sha256 for row in both if isinstance(row, ImageRow) and row.row == "image"]
    assert any(data)
    assert [row.replace(data_sha256=None) for row in both if isinstance(row, ImageRow)] == images
    assert [row for row in both if row.row == "kernel"] == kernels[:-1]
    assert len(kernels) > 1
    for before, row in pairwise(both):
        assert row.row != "kernel" or before.position == row.position, "kernels follow their image"
