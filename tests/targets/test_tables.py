"""The tables of all names, for the terminal and the documents."""

from __future__ import annotations

from fatpack.commands.targets.tables import target_tables
from fatpack.targets.vocabulary import load_vocabulary


def test_every_row_has_a_cell_for_every_column() -> None:
    for section in target_tables():
        assert section.rows
        assert {len(row) for row in section.rows} == {len(section.columns)}


def test_sections_are_grouped_by_vendor() -> None:
    vendors = [section.vendor for section in target_tables()]
    assert list(dict.fromkeys(vendors)) == ["nvidia", "amd", "intel", ""]
    assert vendors == sorted(vendors, key=["nvidia", "amd", "intel", ""].index)


def test_every_name_of_the_vocabulary_is_in_a_table() -> None:
    words = {
        word.strip("(),")
        for section in target_tables()
        for row in section.rows
        for cell in row
        for word in cell.split()
    }
    missing = set(load_vocabulary().names()) - words
    # Virtual architectures stand beside the real ones.
    assert not missing


def test_every_triple_is_in_a_table() -> None:
    (triples,) = (section for section in target_tables() if section.title == "Triples")
    assert [row[0] for row in triples.rows] == [line.triple for line in load_vocabulary().triples]
