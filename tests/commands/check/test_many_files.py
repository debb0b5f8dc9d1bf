"""Packages of many files are walked once for what a check wants of them, not once for each file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import fatbin, linked_elf
from tests.builders.packages import COMPRESSORS, SUFFIXES, tarred, zipped
from tests.builders.policy_files import cubin, library
from tests.laws.rooms import FIXTURES

from fatpack.commands.check.policy import Policy, parse_requirements
from fatpack.commands.check.request import check_policy
from fatpack.inputs import reopen
from fatpack.limits import Budget


@pytest.fixture
def opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what grows by every file in a package that is opened by its address."""
    monkeypatch.chdir(tmp_path)
    found: list[str] = []
    entered = reopen.open_nested

    def counting(package: object, inside: str) -> object:
        found.append(inside)
        return entered(package, inside)  # type: ignore[arg-type]

    monkeypatch.setattr(reopen, "open_nested", counting)
    return found


NEEDS = Policy(require=parse_requirements(["sm_90+ptx"], {}))


def test_libraries_that_lack_something_are_read_in_one_walk(opens: list[str]) -> None:
    Path("x.whl").write_bytes(zipped({f"x/{number}.so": library("80") for number in range(40)}))
    made = check_policy(["x.whl"], NEEDS)
    assert len({item.path for item in made.violations}) == 40
    assert all(hole.kernels == ("k",) for item in made.violations for hole in item.holes)
    assert not opens


def test_so_are_the_loose_images_of_a_folder(opens: list[str]) -> None:
    Path("x.whl").write_bytes(zipped({f"x/{number}.cubin": cubin(80, [f"k{number}"]) for number in range(40)}))
    (lacks,) = (item for item in check_policy(["x.whl"], NEEDS).violations if item.subject == "sm_90")
    (hole,) = lacks.holes
    assert hole.kernels is not None
    assert len(hole.kernels) == 40
    assert len(opens) < 2


def test_so_are_images_whose_kernels_cannot_be_read(opens: list[str]) -> None:
    unknown = (FIXTURES / "offload_binary" / "llvm-22-one.bin").read_bytes()  # five bytes that are no image
    Path("x.whl").write_bytes(zipped({f"x/{number}.bin": unknown for number in range(40)}))
    made = check_policy(["x.whl"], NEEDS)
    assert len({item.path for item in made.violations}) == 40
    assert not opens


def test_wrong_labels_are_reported_of_every_file_and_none_is_opened_again(opens: list[str]) -> None:
    wrong = linked_elf.build([fatbin.fatbin(fatbin.entry(cubin(80, ["k"]), sm=90))]).data
    Path("x.whl").write_bytes(zipped({f"x/{number}.so": wrong for number in range(60)}))
    made = check_policy(["x.whl"], Policy(forbid=("sm_5*",)))
    assert len({item.path for item in made.violations if item.code == "FP3314"}) == 60
    assert all("sm_90" in item.message and "sm_80" in item.message for item in made.violations)
    assert not opens


@pytest.mark.parametrize("compressor", ["", "gzip"])
def test_what_libraries_register_is_followed_in_one_walk(compressor: str, opens: list[str]) -> None:
    data = bytearray(library("80"))
    at = data.index((0x466243B1).to_bytes(4, "little"))  # the magic of the record that leads to the fat binary
    data[at : at + 4] = b"gone"
    files = {f"x/{number}.so": bytes(data) for number in range(30)}
    path = Path(f"x.tar{SUFFIXES.get(compressor, '')}")
    path.write_bytes(COMPRESSORS[compressor](tarred(files)) if compressor else tarred(files))
    listing, following = Budget(), Budget()
    check_policy([path], Policy(forbid=("sm_5*",)), budget=listing)
    made = check_policy([path], Policy(registered=True), budget=following)
    assert len({item.path for item in made.violations if item.subject == "registration"}) == 30
    # One file of the package was opened alone: what is said of it is what is said of it in the walk.
    Path("x.so").write_bytes(data)
    alone = [(item.code, item.message) for item in check_policy(["x.so"], Policy(registered=True)).violations]
    first = [(item.code, item.message) for item in made.violations if item.path.endswith("!x/0.so")]
    assert alone == first
    assert not opens
    assert following.drawn == 2 * listing.drawn
