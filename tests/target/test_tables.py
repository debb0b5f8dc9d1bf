"""The tables of all names, for the terminal and the documents."""

from __future__ import annotations

from fatpack.target import listing
from fatpack.target.vocabulary import vocabulary


def test_every_row_has_a_cell_for_every_column() -> None:
    for section in listing():
        assert section.rows
        assert {len(row) for row in section.rows} == {len(section.columns)}


def test_sections_are_grouped_by_vendor() -> None:
    vendors = [section.vendor for section in listing()]
    assert list(dict.fromkeys(vendors)) == ["nvidia", "amd", "intel", ""]
    assert vendors == sorted(vendors, key=["nvidia", "amd", "intel", ""].index)


def test_every_name_of_the_vocabulary_is_in_a_table() -> None:
    words = {
        word.strip("(),") for section in listing() for row in section.rows for cell in row for word in cell.split()
    }
    missing = set(vocabulary().names()) - words
    # Virtual architectures stand beside the real ones.
    assert not missing


def test_every_triple_is_in_a_table() -> None:
    (triples,) = (section for section in listing() if section.title == "Triples")
    assert [row[0] for row in triples.rows] == [line.triple for line in vocabulary().triples]
