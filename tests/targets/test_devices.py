"""Names of devices, and the devices of a machine from the files of its drivers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fatpack.errors import TargetError
from fatpack.targets.devices import Device, device_by_driver_name, device_names, parse_device
from fatpack.targets.local_devices import parse_devices
from fatpack.targets.vocabulary import load_vocabulary


@pytest.mark.parametrize(
    ("name", "vendor", "arch"),
    [
        ("sm_86", "nvidia", "sm_86"),
        ("8.9", "nvidia", "sm_89"),
        ("sm_90a", "nvidia", "sm_90"),
        ("sm_101", "nvidia", "sm_110"),
        ("RTX 4090", "nvidia", "sm_89"),
        ("RTX4090", "nvidia", "sm_89"),
        ("rtx4070ti", "nvidia", "sm_89"),
        ("MI 300X", "amd", "gfx942"),
        ("ArcA770", "intel", "acm_g10"),
        ("geforce rtx 4090", "nvidia", "sm_89"),
        ("NVIDIA TITAN X", "nvidia", "sm_61"),
        ("TITAN RTX", "nvidia", "sm_75"),
        ("RTX PRO 6000", "nvidia", "sm_120"),
        ("RTX PRO", "nvidia", "sm_120"),
        ("xe-lnl-m", "intel", "lnl_m"),
        ("NVIDIA GeForce RTX 3090", "nvidia", "sm_86"),
        ("NVIDIA A100-SXM4-80GB", "nvidia", "sm_80"),
        ("RTX 3050", "nvidia", "sm_86"),
        ("GTX 1650", "nvidia", "sm_75"),
        ("GeForce RTX 3070 Laptop GPU", "nvidia", "sm_86"),
        ("RTX 4070 Ti Super", "nvidia", "sm_89"),
        ("Jetson Orin", "nvidia", "sm_87"),
        ("Jetson Orin Nano Super", "nvidia", "sm_87"),
        ("MI300X", "amd", "gfx942"),
        ("gfx90a:xnack-", "amd", "gfx90a:xnack-"),
        ("A770", "intel", "acm_g10"),
        ("pvc", "intel", "pvc"),
    ],
)
def test_a_device_is_named_by_its_architecture_or_by_what_it_is_sold_as(name: str, vendor: str, arch: str) -> None:
    found = parse_device(name)
    assert (found.vendor, found.arch) == (vendor, arch)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RTX", "is the name of several devices"),
        ("TITAN", "is the name of several devices"),
        ("xe-bmg", "xe-bmg is the name of a group of devices"),
        ("xe-nvl-u", "xe-nvl-u is LLVM's name alone"),
        ("TITAN X", "sm_61 is NVIDIA TITAN X, sm_52 is GeForce GTX TITAN X"),
        ("Arc Graphics", "lnl_m is Arc Graphics (Lunar Lake)"),
        ("compute_80", "write sm_80"),
        ("gfx11-generic", "name a device, such as gfx1100"),
        ("RTX 9999", "nvidia-smi --query-gpu=compute_cap"),
        ("RTX 3055", "did you mean RTX 3050"),
        ("sm60", "did you mean sm_60?"),
        ("sm120", "did you mean sm_120?"),
        ("SM_90", "did you mean sm_90?"),
        ("gfx90A", "did you mean gfx90a?"),
        ("RTX 3055", "nvidia-smi --query-gpu=compute_cap"),
        ("TITANX", "sm_61 is NVIDIA TITAN X, sm_52 is GeForce GTX TITAN X"),
        ("NVIDIA GeForce RTX 4090 D9", "GeForce RTX 4090"),
        ("GeForce RTX 4091", "GeForce RTX 4090"),
        ("", "unknown"),
    ],
)
def test_names_of_several_devices_and_of_none_are_refused(name: str, said: str) -> None:
    with pytest.raises(TargetError, match=re.escape(said)):
        parse_device(name)


def test_a_device_without_features_means_every_setting_of_them() -> None:
    assert set(parse_device("gfx90a:xnack-").states) == {"gfx90a:sramecc+:xnack-", "gfx90a:sramecc-:xnack-"}
    assert parse_device("gfx1100").states == ("gfx1100",)
    assert len(parse_device("gfx942").states) == 4


def test_every_name_of_the_table_means_a_known_architecture() -> None:
    words = load_vocabulary()
    for row in device_names():
        known = {"nvidia": words.nvidia, "amd": words.amd, "intel": words.intel}[row.vendor]
        assert not row.arch or row.arch in known, row


@pytest.mark.parametrize(
    ("model", "arch"),
    [
        ("NVIDIA H100 80GB HBM3", "sm_90"),
        ("NVIDIA A100-SXM4-80GB", "sm_80"),
        ("Tesla T4", "sm_75"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm_89"),
        ("Quadro M5000M", "sm_50"),
    ],
)
def test_a_driver_says_how_a_device_is_built_in(model: str, arch: str) -> None:
    found = device_by_driver_name(model)
    assert found is not None and found.arch == arch


def test_a_name_with_other_words_after_it_is_another_device() -> None:
    assert device_by_driver_name("NVIDIA GeForce RTX 4090 D") is None
    assert device_by_driver_name("") is None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_machine_is_what_its_drivers_show(tmp_path: Path) -> None:
    for number, model in enumerate(["NVIDIA H200", "NVIDIA H200", "NVIDIA L4"]):
        path = tmp_path / f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information"
        _write(path, f"Model: \t\t {model}\nIRQ:   \t\t 16\nGPU UUID: \t GPU-0\n")
    for number, version in enumerate([0, 90402, 110000]):
        path = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}/properties"
        _write(path, f"cpu_cores_count 4\ngfx_target_version {version}\nvendor_id 4098\n")
    arc = tmp_path / "sys/bus/pci/devices/0000:05:00.0"
    for name, text in (("class", "0x030000\n"), ("vendor", "0x8086\n"), ("device", "0x56a0\n")):
        _write(arc / name, text)
    found = parse_devices(["this-machine"], str(tmp_path))
    assert [one.arch for one in found] == ["sm_90", "sm_89", "gfx942", "gfx1100", "acm_g10"]


def test_files_of_drivers_that_cannot_be_read_show_no_device(tmp_path: Path) -> None:
    """A device may be removed meanwhile: then its files give errors, as this one does."""
    for folder, name in (
        ("proc/driver/nvidia/gpus", "information"),
        ("sys/class/kfd/kfd/topology/nodes", "properties"),
    ):
        path = tmp_path / folder / "0" / name
        path.parent.mkdir(parents=True)
        path.symlink_to("/proc/self/mem")
    with pytest.raises(TargetError, match="the driver shows ''"):
        parse_devices(["this-machine"], str(tmp_path))
    (tmp_path / "proc/driver/nvidia/gpus/0/information").unlink()
    with pytest.raises(TargetError, match="shows no GPU"):
        parse_devices(["this-machine"], str(tmp_path))


def test_a_machine_that_shows_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="shows no GPU"):
        parse_devices(["this-machine"], str(tmp_path))
    card = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    for name, text in (("class", "0x030200\n"), ("vendor", "0x10de\n"), ("device", "0x2330\n")):
        _write(card / name, text)
    with pytest.raises(TargetError, match="NVIDIA 0x2330, and no driver"):
        parse_devices(["this-machine"], str(tmp_path))


def test_a_device_of_unknown_capability_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "proc/driver/nvidia/gpus/0/information", "Model: NVIDIA Quux 9\n")
    with pytest.raises(TargetError, match="nvidia-smi"):
        parse_devices(["sm_80", "this-machine"], str(tmp_path))


def _display(root: Path, vendor: str, number: str, *, slot: str = "0000:00:02.0") -> None:
    for name, text in (("class", "0x030000"), ("vendor", vendor), ("device", number)):
        _write(root / "sys/bus/pci/devices" / slot / name, f"{text}\n")


def test_an_intel_device_that_is_in_no_table_is_refused_beside_others(tmp_path: Path) -> None:
    _write(tmp_path / "proc/driver/nvidia/gpus/0/information", "Model: NVIDIA L4\n")
    assert [one.arch for one in parse_devices(["this-machine"], str(tmp_path))] == ["sm_89"]
    _display(tmp_path, "0x8086", "0xfffe")
    with pytest.raises(TargetError, match="Intel 0xfffe, whose architecture is not known"):
        parse_devices(["this-machine"], str(tmp_path))


@pytest.mark.parametrize("number", ["0xzzzz", "0x", "56a0", "0x٣"])
def test_an_id_of_a_display_that_is_no_number_names_nothing(tmp_path: Path, number: str) -> None:
    _display(tmp_path, "0x8086", number)
    with pytest.raises(TargetError, match="shows no GPU"):
        parse_devices(["this-machine"], str(tmp_path))


def test_each_device_is_selected_once() -> None:
    assert [one.arch for one in parse_devices(["sm_89,RTX 4090", "gfx942"])] == ["sm_89", "gfx942"]


@pytest.mark.parametrize(("vendor", "name"), [("0x10de", "NVIDIA 0x2330"), ("0x1002", "AMD 0x2330"), ("0x1001", "")])
def test_a_card_without_a_driver_is_named_by_its_vendor(vendor: str, name: str, tmp_path: Path) -> None:
    _display(tmp_path, vendor, "0x2330")
    with pytest.raises(TargetError) as caught:
        parse_devices(["this-machine"], str(tmp_path))
    assert ("no driver lists these" in str(caught.value)) == bool(name)
    assert name in str(caught.value)


def test_code_for_nvidia_is_no_architecture_of_others() -> None:
    assert [Device(vendor, "sm_80").nvidia is None for vendor in ("amd", "intel", "nvidia")] == [True, True, False]
