"""What libgomp loads on a device: all PTX texts of a record, or its code object if the processor is the device's."""

from __future__ import annotations

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.targets.devices import parse_device
from fatpack.targets.selection.model import CandidateImage
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import CandidateSet, DeviceSelection, select_image


def texts(*archs: str, on: str, settings: RuntimeSettings | None = None) -> DeviceSelection:
    images = tuple(CandidateImage("ptx", f"sm_{arch}", "nvptx64-nvidia-cuda", (6, 0)) for arch in archs)
    (choice,) = select_image(CandidateSet(images, "gcc"), parse_device(on), settings or RuntimeSettings())
    return choice


def code_object(arch: str, on: str) -> list[DeviceSelection]:
    images = (CandidateImage("code-object", arch, "amdgcn-amd-amdhsa"),)
    return list(select_image(CandidateSet(images, "gcc"), parse_device(on), RuntimeSettings()))


def test_the_highest_target_of_all_texts_decides() -> None:
    choice = texts("80", "30", "30", on="sm_80")
    assert (choice.outcome, choice.image, choice.rule) == ("compiles", 0, "G1")
    choice = texts("30", "80", "30", on="sm_75")
    assert (choice.outcome, choice.image, choice.rule) == ("fails", 1, "C7")
    assert "Cannot map target functions" in choice.text


def test_an_old_driver_refuses_newer_ptx() -> None:
    choice = texts("30", on="sm_30", settings=RuntimeSettings(driver=(8, 0)))
    assert (choice.outcome, choice.rule) == ("fails", "C8")


def test_settings_of_the_driver_are_not_known_for_linked_texts() -> None:
    choice = texts("30", on="sm_80", settings=RuntimeSettings(disables_ptx=True))
    assert (choice.outcome, choice.rule) == ("unknown", "C13")


def test_the_processor_must_be_the_devices() -> None:
    (choice,) = code_object("gfx90a", "gfx90a:sramecc+:xnack-")
    assert (choice.outcome, choice.rule) == ("runs", "G2")
    (choice,) = code_object("gfx803", "gfx90a:sramecc+:xnack-")
    assert (choice.outcome, choice.rule) == ("fails", "G2")
    assert choice.text == "libgomp: GCN code object ISA 'gfx803' does not match GPU ISA 'gfx90a'"


def test_rocr_compares_the_features() -> None:
    (choice,) = code_object("gfx906:xnack-", "gfx906:sramecc-:xnack+")
    assert (choice.outcome, choice.rule) == ("fails", "H5")


def test_generic_processors_are_refused_by_the_plugins_that_were_read() -> None:
    (choice,) = code_object("gfx9-generic", "gfx900:xnack-")
    assert (choice.outcome, choice.rule, choice.is_certain) == ("unknown", "G4", False)


@pytest.mark.parametrize(("name", "device", "outcome", "rule"), [
    ("p.acc.amd", "gfx803", "runs", "G2"),
    ("p.acc.amd", "gfx942", "fails", "G2"),
    ("gcc14.acc.amd", "gfx900:xnack-", "runs", "G2"),
    ("p.acc.nv", "sm_120", "compiles", "G1"),
])  # fmt: skip
def test_explain_asks_for_programs(name: str, device: str, outcome: str, rule: str) -> None:
    (answer,) = fatpack.explain(FIXTURES / "gcc" / name, device).devices
    ((unit),) = answer.units
    assert (unit.runtime, unit.outcome, unit.rule, unit.noun) == ("gcc", outcome, rule, "container")


def test_a_device_of_another_kind_runs_the_regions_on_the_host() -> None:
    (answer,) = fatpack.explain(FIXTURES / "gcc" / "p.acc.nv", "gfx90a").devices
    assert not answer.units
    assert any("run on the host" in note and "G3" in note for note in answer.notes)


def test_bytecode_is_for_no_device_yet() -> None:
    (answer,) = fatpack.explain(FIXTURES / "gcc" / "o.acc.o", "sm_90").devices
    assert "chosen when it is linked" in answer.verdict
