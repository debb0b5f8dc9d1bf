"""Containers in a program's own data: they lose images at their places, and nothing else of the program changes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.builders import linked_elf, linked_pe
from tests.builders.fatbin import of_words
from tests.builders.linked_elf import entry, fatbin
from tests.builders.registered import Part, linked, printed

from fatpack import proof
from fatpack.commands.slim import SlimRefused
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import SlimPlan, plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.io.source import BytesSource, View
from fatpack.main import main
from fatpack.proof.ledger import ProofResult
from fatpack.scanner import FoundContainer, scan
from fatpack.targets.local_devices import parse_devices
from fatpack.testing.helpers import join_pieces

#: A table with start and end of each container, as cuBLASLt has for those in its section ``.cask_resource``.
_TABLE = """
        .section .data.table, "aw"
        .balign 8
        .8byte own{number}, own{number}_end
"""
_CONTAINER = """
        .section {section}
        .balign 8
own{number}:
        .incbin "{file}"
own{number}_end:
        .8byte 0
"""
DATA = '.cask_resource, "a"'


def view(data: bytes) -> View:
    return BytesSource(data, "libx.so").view()


def program(folder: Path, *words: str, section: str = DATA, more: str = "", options: tuple[str, ...] = ()) -> bytes:
    """Return a program with a registered container for sm_80 and sm_90, and others in its data."""
    text = ""
    for number, each in enumerate(words):
        file = folder / f"own{number}"
        file.write_bytes(of_words(each))
        text += _CONTAINER.format(number=number, section=section, file=file) + _TABLE.format(number=number)
    return linked(folder, [Part(of_words("80 90"))], *options, tail=text + more).read_bytes()


def for_(*names: str, **more: object) -> SlimOptions:
    return SlimOptions(devices=parse_devices(names), **more)  # type: ignore[arg-type]


def slimmed(data: bytes, options: SlimOptions) -> tuple[SlimPlan, bytes, ProofResult]:
    made = plan_slim(view(data), options)
    after = join_pieces(made.pieces)
    verifier_for(made)(view(data), view(after))
    return made, after, proof.prove(view(data), view(after))


def in_data(data: bytes) -> list[FoundContainer]:
    found = [item for item in scan(view(data)) if isinstance(item, FoundContainer)]
    return [item for item in found if item.section != ".nv_fatbin"]


@pytest.mark.parametrize("section", [DATA, ".data", '.ldata, "aw"'])
@pytest.mark.parametrize("options", [(), ("-no-pie",)], ids=["pie", "no-pie"])
def test_images_of_other_devices_become_zeros_at_their_places(
    tmp_path: Path, section: str, options: tuple[str, ...]
) -> None:
    data = program(tmp_path, "100", "80 90", "75 90 100", section=section, options=options)
    made, after, result = slimmed(data, for_("sm_90"))
    assert result.is_proved, result.differences
    assert [row.position for row in made.dropped] == ["0.0", "1.0", "2.0", "3.0", "3.2"]
    assert [[image.label for image in found.images] for found in in_data(after)] == [["sm_90"], ["sm_90"]]
    starts = [found.view.start for found in in_data(data)]
    assert [found.view.start for found in in_data(after)] == starts[1:]
    assert after[starts[0] : starts[0] + 16] == data[starts[0] : starts[0] + 8] + bytes(8)
    assert not any(after[starts[0] + 16 : starts[1]])
    assert sorted(one.fate for one in result.containers) == ["emptied", "reduced", "reduced", "reduced"]
    assert any("3 containers in " in note and "that the program's own code loads" in note for note in made.notes)
    path = tmp_path / "after"
    path.write_bytes(after)
    path.chmod(0o755)
    assert printed(path) == ["0: 2/90"]
    assert not plan_slim(view(after), for_("sm_90")).is_changed


def test_lower_minors_and_ptx_for_later_devices_stay(tmp_path: Path) -> None:
    """Nothing says which container the program takes for a device."""
    data = program(tmp_path, "80", "86", "89", "p70", "p90", "90")
    made, _, result = slimmed(data, for_("sm_86"))
    assert result.is_proved
    assert [row.position for row in made.dropped] == ["0.1", "3.0", "6.0"]
    made, _, result = slimmed(data, for_("sm_86", keep_ptx="none"))
    assert result.is_proved
    assert [row.position for row in made.dropped] == ["0.1", "3.0", "5.0", "6.0"]


def test_a_word_into_the_middle_keeps_the_container(tmp_path: Path) -> None:
    word = '\n        .section .data.more, "aw"\n        .balign 8\n        .8byte own0 + 32\n'
    made, after, result = slimmed(data := program(tmp_path, "100", "100", more=word), for_("sm_90"))
    assert result.is_proved
    assert [row.position for row in made.dropped] == ["0.0", "2.0"]
    assert "1 container among the program's own data: not slimmed" in made.notes
    assert in_data(after)[0].view.tobytes() == in_data(data)[0].view.tobytes()


def test_nothing_changes_without_devices(tmp_path: Path) -> None:
    data = program(tmp_path, "80 100")
    made = plan_slim(view(data), SlimOptions(drop=("sm_80",)))
    assert [row.position for row in made.dropped] == ["0.0"]
    assert in_data(join_pieces(made.pieces))[0].view.tobytes() == in_data(data)[0].view.tobytes()


def test_what_serves_a_device_does_not_go(tmp_path: Path) -> None:
    with pytest.raises(SlimRefused, match="2 containers would no longer run on sm_90"):
        plan_slim(view(program(tmp_path, "90")), for_("sm_90", drop=("sm_90",), keep=("sm_80",)))


def test_thousands_of_emptied_containers_end_no_search(tmp_path: Path) -> None:
    file = tmp_path / "many"
    file.write_bytes(fatbin() * 3000)
    more = f'\n        .section .ldata, "aw"\n        .incbin "{file}"\n'
    data = program(tmp_path, "90", section='.ldata, "aw"', more=more)
    items = list(scan(view(data)))
    assert [item.section for item in items if isinstance(item, FoundContainer)] == [".nv_fatbin", ".ldata"]
    assert not [item for item in items if not isinstance(item, FoundContainer)]


def test_what_ptx_stays_and_costs_is_said_with_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "libx.so", tmp_path / "slim.so"
    path.write_bytes(program(tmp_path, "p70", "p100", "R80", "100"))
    assert main(["slim", str(path), "--for", "sm_90", "-o", str(out)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "PTX" in line]
    assert [line.partition(" (")[0] for line in lines] == [
        "PTX that a device compiles stays: compute_70",
        "PTX for later devices stays: compute_100",
        "relocatable PTX, which no device takes, stays: compute_80",
    ]
    assert lines[1].endswith("; --drop-ptx removes it")
    assert lines[2].endswith("; --drop compute_80 removes it")
    assert main(["slim", str(path), "--for", "sm_90", "--drop-ptx", "--force", "-o", str(out)]) == 0
    assert "later devices" not in capsys.readouterr().out


# The proof: a library built by hand, with a container among its variables.

SM90, SM100 = entry(2, 90, b"\x7fELF" + bytes(range(90))), entry(2, 100, b"\x7fELF" + bytes(range(60)) * 2)
LIBRARY = linked_elf.build([fatbin(SM90)], more_relocations=12)
#: where the container is, in the file and in memory
AT = LIBRARY.places[".data"][0] + 48
BEFORE = LIBRARY.data[:AT] + fatbin(SM90, SM100) + LIBRARY.data[AT + len(fatbin(SM90, SM100)) :]


def edited(content: bytes, before: bytes = BEFORE) -> bytes:
    content = content.ljust(len(fatbin(SM90, SM100)), b"\0")
    return before[:AT] + content + before[AT + len(content) :]


def differences(before: bytes, after: bytes) -> set[str]:
    result = proof.prove(view(before), view(after))
    assert result.is_proved == (not result.differences)
    return {one.what for one in result.differences}


def relocated(value: int) -> bytes:
    """Return the library with a word of data, after the container, that the loader sets to an address."""
    place = LIBRARY.places[".data"][0] + LIBRARY.places[".data"][1] - 8
    row = LIBRARY.places[".rela.dyn"][0] + 24
    return BEFORE[:row] + struct.pack("<QQq", place, linked_elf.RELATIVE, value) + BEFORE[row + 24 :]


@pytest.mark.parametrize("content", [fatbin(), fatbin(SM90), fatbin(SM100)])
def test_a_container_in_data_is_proved_at_its_place(content: bytes) -> None:
    assert not differences(BEFORE, edited(content))
    before = relocated(AT)
    assert not differences(before, edited(content, before))


def test_other_changes_of_data_are_not_proved() -> None:
    memory = "bytes in memory"
    assert differences(BEFORE, edited(fatbin(SM90) + b"\1")) == {"bytes that are in no container"}
    assert differences(BEFORE, edited(bytes(8) + fatbin(SM90))) == {memory}
    assert differences(BEFORE, edited(fatbin(SM100, SM90))) == {memory}
    assert differences(BEFORE, edited(b"")) == {memory}
    assert "image" in differences(BEFORE, edited(fatbin(SM90.replace(b"\x7fELF", b"\x7fELG"))))
    before = relocated(AT + 80)
    assert differences(before, edited(fatbin(SM90), before)) == {"pointer or symbol that no record is"}
    unknown = entry(0x999, 100, bytes(200))
    before = edited(fatbin(unknown))
    assert differences(before, edited(fatbin(), before)) == {memory}


def test_a_container_in_another_is_part_of_its_image() -> None:
    inner = fatbin(SM90)
    outer = fatbin(entry(2, 100, inner))
    before = edited(outer)
    assert differences(before, edited(outer.replace(inner, fatbin().ljust(len(inner), b"\0")))) == {"bytes in memory"}


def test_code_holds_no_containers() -> None:
    section = LIBRARY.table + 64 * (list(LIBRARY.places).index(".data") + 1)
    before = BEFORE[: section + 8] + struct.pack("<Q", 7) + BEFORE[section + 16 :]
    assert differences(before, edited(fatbin(SM90), before)) == {"bytes in memory"}


@pytest.mark.parametrize("bits", [64, 32])
def test_a_dll_loses_images_of_its_own_data_at_their_places(bits: int) -> None:
    own = [of_words("100"), of_words("80 90"), of_words("75 90 100")]
    image = linked_pe.build([of_words("80 90")], own=own, bits=bits)
    made, after, result = slimmed(image.data, for_("sm_90"))
    assert result.is_proved, result.differences
    old, new = in_data_of_dll(image.data), in_data_of_dll(after)  # the first is empty now, and not listed
    assert [[image.label for image in found.images] for found in new] == [["sm_90"], ["sm_90"]]
    assert [one.view.start for one in new] == [one.view.start for one in old[1:]]
    assert any("3 containers in .cask_re that the program's own code loads" in note for note in made.notes)
    assert len(after) <= len(image.data)
    assert linked_pe.total(after, image.optional + 64) == struct.unpack_from("<I", after, image.optional + 64)[0]


def test_a_container_of_a_dll_into_whose_middle_a_word_points_stays() -> None:
    own = [of_words("75 90"), of_words("75 90")]
    image = linked_pe.build([of_words("80 90")], own=own, inside=1)
    _, after, result = slimmed(image.data, for_("sm_90"))
    assert result.is_proved, result.differences
    assert [[image.label for image in found.images] for found in in_data_of_dll(after)] == [
        ["sm_90"],
        ["sm_75", "sm_90"],
    ]


def test_containers_in_the_code_of_a_dll_stay() -> None:
    image = linked_pe.build([of_words("80 90")], own=[of_words("75 90")], own_flags=linked_pe.CODE)
    _, after, _ = slimmed(image.data, for_("sm_90"))
    assert [[image.label for image in found.images] for found in in_data_of_dll(after)] == [["sm_75", "sm_90"]]


@pytest.mark.parametrize("place", [0, 16, 90, -1])
def test_the_proof_rejects_other_bytes_in_the_data_of_a_dll(place: int) -> None:
    image = linked_pe.build([of_words("80 90")], own=[of_words("75 90 100")], checksum=False)
    _, after, result = slimmed(image.data, for_("sm_90"))
    assert result.is_proved, result.differences
    (found,) = in_data_of_dll(after)
    (old,) = in_data_of_dll(image.data)
    at = found.view.start + place if place >= 0 else old.view.end - 1
    forged = bytearray(after)
    forged[at] ^= 1
    assert not proof.prove(view(image.data), view(bytes(forged))).is_proved


def in_data_of_dll(data: bytes) -> list[FoundContainer]:
    found = [item for item in scan(view(data)) if isinstance(item, FoundContainer)]
    return [item for item in found if item.section == ".cask_re"]
