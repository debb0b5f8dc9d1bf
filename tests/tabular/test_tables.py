"""Rows as JSON Lines, CSV and Parquet: each gives back what went in, whatever names a file has."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.tabular.columns import ImageRow, KernelRow, json_schema, list_columns
from fatpack.tabular.text import csv_lines, json_lines
from fatpack.text.schemas import schema_text

FATBIN = FIXTURES / "cuda_fatbin" / "recorded" / "v130_default.fatbin"

HOSTILE = ImageRow(
    "image",
    "a\udcff.so",
    chain=("a b", "c → d"),
    member='=HYPERLINK("x")',
    arch="-sm_80",
    triple="a\nb,c\x00",
    features=("xnack+",),
    findings=("FP1001", "FP1002"),
    size=(1 << 64) - 1,
)


def test_json_lines_fit_the_schema_that_is_shipped() -> None:
    schema = json.loads(schema_text("rows"))
    assert schema == json_schema()
    images = list(fatpack.rows(FATBIN, kernels=True, digests=True))
    kernels = list(fatpack.rows(FATBIN, of="kernels"))
    for rows in (images, kernels, [HOSTILE]):
        lines = list(json_lines(rows))
        assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
        for line, row in zip(lines, rows, strict=True):
            document = json.loads(line)
            jsonschema.validate(document, schema)
            assert list(document) == list(type(row)._fields)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(lines[0]), "another": 1}, schema)


def test_json_lines_are_utf8_whatever_the_names_are() -> None:
    document = json.loads(next(json_lines([HOSTILE])))
    assert document["path"] == "a\\xff.so"
    assert {name: document[name] for name in ("member", "arch", "triple", "size", "chain")} == {
        "member": HOSTILE.member,
        "arch": HOSTILE.arch,
        "triple": HOSTILE.triple,
        "size": HOSTILE.size,
        "chain": list(HOSTILE.chain),
    }


def test_no_cell_of_a_csv_is_a_formula() -> None:
    text = "".join(csv_lines([HOSTILE.replace(triple="a\nb,c")], ImageRow))
    head, row = csv.reader(io.StringIO(text, newline=""))
    cells = dict(zip(head, row, strict=True))
    assert head == list(ImageRow._fields)
    assert (cells["member"], cells["arch"]) == ('\'=HYPERLINK("x")', "'-sm_80")
    assert (cells["triple"], cells["path"], cells["chain"]) == ("a\nb,c", "a\\xff.so", "a b → c → d")
    assert (cells["findings"], cells["features"], cells["sha256"]) == ("FP1001 FP1002", "xnack+", "")
    kernel = KernelRow("kernel", "x", has_dynamic_stack=True, registers=3)
    head, row = csv.reader(csv_lines([kernel], KernelRow))
    cells = dict(zip(head, row, strict=True))
    assert (cells["has_dynamic_stack"], cells["registers"]) == ("true", "3")


def test_parquet_gives_back_the_rows(tmp_path: Path) -> None:
    pq = reference.package("pyarrow.parquet")
    from fatpack.tabular.parquet import parquet_from_values, parquet_pieces, parquet_without

    images = list(fatpack.rows(FATBIN, kernels=True, digests=True))
    path = tmp_path / "x.parquet"
    path.write_bytes(b"".join(parquet_pieces(images, ImageRow)))
    assert pq.read_table(path).to_pylist() == [row.to_dict() for row in images]
    assert pq.read_schema(path).metadata[b"fatpack.schema"] == b"fatpack.rows/1"
    assert pq.read_schema(path).names == [name for name, _, _ in list_columns(ImageRow)]
    path.write_bytes(b"".join(parquet_from_values([*(row.values() for row in images), HOSTILE.values()], ImageRow)))
    *same, hostile = pq.read_table(path).to_pylist()
    assert same == [row.to_dict() for row in images]
    assert (hostile["path"], hostile["size"]) == ("a\\xff.so", (1 << 63) - 1)
    left = b"".join(parquet_without(str(path), [str(FATBIN)], ImageRow))
    path.write_bytes(left)
    assert pq.read_table(path).to_pylist() == [hostile]
    path.write_bytes(left[:-4])
    with pytest.raises(fatpack.FormatError, match="no part of a survey"):
        b"".join(parquet_without(str(path), [], ImageRow))
    assert pq.read_table(io.BytesIO(b"".join(parquet_pieces([], KernelRow)))).num_rows == 0


def test_parquet_holds_one_row_group_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pq = reference.package("pyarrow.parquet")
    from fatpack.tabular import parquet

    monkeypatch.setattr(parquet, "_GROUP_ROWS", 2048)
    taken = 0

    def rows() -> object:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield ImageRow("image", str(number))

    pieces = parquet.parquet_pieces(rows(), ImageRow)  # type: ignore[arg-type]
    data = next(pieces)
    assert taken <= 3072
    data += b"".join(pieces)
    file = pq.ParquetFile(io.BytesIO(data))
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (10_000, 5)
    assert file.read(["path"]).column("path").to_pylist() == [str(number) for number in range(10_000)]
