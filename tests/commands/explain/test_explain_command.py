"""``fatpack explain``: packed containers in, the verdict and the exit code out."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.builders import elf, offered
from tests.builders.packages import zipped
from tests.builders.policy_files import container
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.explain.text import render_explain
from fatpack.main import main
from fatpack.targets.selection.drivers import driver_branches
from fatpack.text.schemas import schema_text

#: images of a fat binary | arguments | exit code | how the first line goes on
CASES = [
    ("90", "--device H100", 0, "NVIDIA H100 (sm_90): the only container runs"),
    ("80", "--device sm_90", 1, "sm_90: the only container fails: no kernel image is available for execution on the"),
    ("80 p75", "--device 9.0", 0, "sm_90: the only container runs after compiling"),
    ("100a", "--device sm_103", 1, "sm_103: the only container fails: no kernel image is available"),
    ("100f", "--device sm_103", 0, "sm_103: the only container runs"),
    ("90 zstd", "--device sm_90 --driver 535", 1, "sm_90: the only container fails: device kernel image is invalid"),
    ("90 zstd", "--device sm_90 --driver 550.54.14", 0, "sm_90: the only container runs"),
    ("p90@9.1", "--device sm_90 --cuda 13.0", 1, "sm_90: the only container fails: the provided PTX was compiled with"),
    (
        "80 p75",
        "--device sm_90 --env CUDA_DISABLE_PTX_JIT=1",
        1,
        "sm_90: the only container fails: PTX JIT compilation",
    ),
    ("80", "--device sm_87 --cuda 13.0", 1, "sm_87: the only container is not known to run: drivers of CUDA 12"),
    ("80 p80", "--device sm_87 --cuda 12.6", 0, "sm_87: the only container runs after compiling"),
    ("89", "--device 'RTX 4090' --kernel nothing", 1, "GeForce RTX 4090 (sm_89): the kernel is in no image"),
    ("p75", "--device sm_80 --kernel ^k$", 0, "sm_80: the only container runs after compiling"),
    ("101a", "--device sm_110", 1, "sm_110: the only container is not known to run: whether the cubin for sm_101a"),
    ("90", "--device gfx90a", 1, "gfx90a: nothing in it is for AMD devices"),
    ("80 86", "--device sm_86", 0, "sm_86: the only container runs"),
]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["explain", *arguments])
    done = capsys.readouterr()
    return code, done.out, done.err


@pytest.mark.parametrize(("images", "arguments", "code", "first"), CASES)
def test_the_first_line_is_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], images: str, arguments: str, code: int, first: str
) -> None:
    from shlex import split

    path = tmp_path / "x.fatbin"
    path.write_bytes(offered.cuda(images))
    found, out, _ = printed(capsys, str(path), *split(arguments))
    assert out.splitlines()[0].startswith(first)
    assert found == code
    assert "rules:" in out or "nothing in it" in out or "in no image" in out


def test_a_version_of_cuda_that_no_driver_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(offered.cuda("90"))
    newest = driver_branches()[-1].cuda
    code, _, err = printed(capsys, str(path), "--device", "sm_90", "--cuda", f"{newest[0] + 2}.0")
    assert code == 2
    assert f"no driver has CUDA {newest[0] + 2}.0: {newest[0]}.{newest[1]} is the newest that is known" in err
    assert printed(capsys, str(path), "--device", "sm_90", "--cuda", f"{newest[0] + 1}.0")[0] == 0


def test_each_image_has_its_rule_and_sources_come_with_v(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(offered.cuda("80 100a L90 90"))
    _, out, _ = printed(capsys, str(path), "--device", "sm_90", "-v")
    lines = [line.split() for line in out.splitlines()]
    shown = {words[0]: words[2:4] for words in lines if words and words[0] in ("sm_80", "sm_100a", "lto_90", "sm_90")}
    assert shown == {
        "sm_90": ["taken", "C2"],
        "sm_80": ["no", "C2"],
        "sm_100a": ["no", "C4"],
        "lto_90": ["no", "C12"],
    }
    assert "NVIDIA, CUDA Programming Guide: binary and PTX compatibility" in out


def test_json_follows_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads(schema_text("explain"))
    for name, data in (
        ("a", offered.cuda("80 p75@8.7")),
        ("b", offered.hip("gfx1030")),
        ("c", offered.kpack("gfx942")),
    ):
        (tmp_path / name).write_bytes(data)
    devices = [word for name in ("sm_90", "gfx1031", "gfx942", "pvc") for word in ("--device", name)]
    code, out, _ = printed(capsys, str(tmp_path), *devices, "--json")
    document = json.loads(out)
    jsonschema.validate(document, schema)
    assert document["exit_code"] == code == 1
    assert [row["device"] for row in document["devices"]] == ["sm_90", "gfx1031", "gfx942", "pvc"]
    assert document["files"] == 3
    assert printed(capsys, "--schema")[1] == schema_text("explain")


def test_containers_that_answer_alike_are_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(container("80"))
    (tmp_path / "d").write_bytes(container("90"))
    _, out, _ = printed(capsys, str(tmp_path), "--device", "sm_90")
    assert out.startswith("sm_90: 1 of 4 containers runs, 3 fail: no kernel image")
    assert out.count("  fails: 3 containers") == 1
    assert "3 containers of 3 files" in out
    assert out.splitlines()[1:3] == ["  fails: 3 files: a, b, c", "  runs: 1 file: d"]


def test_with_v_the_images_of_what_fails_stand_above_the_places(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(offered.cuda("80"))
    out = printed(capsys, str(tmp_path), "--device", "sm_90", "-v")[1]
    assert out.index("sm_80  cubin") < out.index("a: container 0")
    out = printed(capsys, str(tmp_path), "--device", "sm_90")[1]
    assert out.index("sm_80  cubin") > out.index("a: container 0")


def test_what_hides_images_is_reported_in_their_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(offered.cuda("70 75 80 86 90"))
    out = printed(capsys, str(tmp_path), "--device", "sm_90", "--env", "CUDA_FORCE_PTX_JIT=1")[1]
    assert "CUDA_FORCE_PTX_JIT hides cubins, and no PTX fits compute capability 9.0" in out
    assert "5 images: sm_70, sm_75, sm_80, sm_86, sm_90: CUDA_FORCE_PTX_JIT hides cubins" in out
    assert "for others" not in out


def test_commands_and_names_of_errors_are_whole_on_a_narrow_terminal() -> None:
    explained = fatpack.explain(offered.cuda("90"), "sm_87", driver=535)
    lines = list(render_explain(explained, width=60))
    assert max(map(len, lines)) <= 60
    words = " ".join(lines).split()
    assert {"arch=compute_87,code=sm_87", "cudaErrorNoKernelImageForDevice)"} <= set(words)
    assert words == " ".join(render_explain(explained)).split()


def test_a_wheel_is_looked_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    wheel.write_bytes(zipped({"x/libx.so": (FIXTURES / "cuda_fatbin/hosts/single.o").read_bytes()}))
    code, out, _ = printed(capsys, str(wheel), "--device", "sm_30")
    assert code == 1
    assert out.splitlines()[0].startswith("sm_30: ")


def test_wrong_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(offered.cuda("80"))
    wrong = {
        ("--device", "RTX 4091"): "RTX 4090",
        ("--device", "gfx10310"): "unknown",
        ("--device", "sm_80", "--driver", "534"): "no branch that is known",
        ("--device", "sm_80", "--driver", "535", "--cuda", "12.2"): "both say which driver",
        ("--device", "sm_80", "--env", "PATH=x"): "no rule knows the variable",
        ("--device", "sm_80", "--kernel", "("): "no regular expression",
        (): "no device was named",
    }
    for arguments, words in wrong.items():
        code, _, err = printed(capsys, str(path), *arguments)
        assert (code, words in err) == (2, True), err
    assert printed(capsys, "--device", "sm_80")[0] == 2


def test_a_file_that_cannot_be_read_is_reported_and_decides_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(offered.cuda("90")[:-40])
    code, out, _ = printed(capsys, str(path), "--device", "sm_90")
    assert code == 3
    assert f"not read: {path}" in out
    path.write_bytes(offered.cuda("90") + offered.cuda("90")[:-40])
    code, out, _ = printed(capsys, str(path), "--device", "sm_90")
    assert code == 3
    assert out.startswith("sm_90: not all of x.fatbin could be read; of what was read, ")
    explained = fatpack.explain(path, "sm_90")
    assert (explained.verdict, explained.devices[0].is_complete) == ("unreadable", False)
    assert not explained.devices[0].is_served
    code, out, _ = printed(capsys, str(tmp_path / "none"), "--device", "sm_90")
    assert code == 5
    assert "not read: " in out


def test_an_address_names_a_file_in_a_package_or_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    wheel.write_bytes(zipped({"p/g.fatbin": offered.cuda("90"), "p/h.fatbin": offered.cuda("80")}))
    code, out, _ = printed(capsys, f"{wheel}!p/g.fatbin", "--device", "H100")
    assert (code, out.splitlines()[0]) == (0, "NVIDIA H100 (sm_90): the only container runs")
    code, out, _ = printed(capsys, f"{wheel}!p/h.fatbin", "--device", "H100")
    assert code == 1
    assert "h.fatbin: container 0" in out
    code, out, _ = printed(capsys, f"{wheel}!p/none.fatbin", "--device", "H100")
    assert code == 2
    assert "nothing was read" in out


def test_wrong_arguments_in_python_are_reported_by_their_names(tmp_path: Path) -> None:
    data = offered.cuda("80")
    with pytest.raises(fatpack.UsageError, match="device names none"):
        fatpack.explain(data, [])
    with pytest.raises(fatpack.UsageError, match="no path given"):
        fatpack.explain([], "sm_80")
    wrong = {
        "device must be the name of a device, or several in a list, got int": {"device": 80},
        "a name in device must be a text, got float": {"device": [8.6]},
        "kernel must be a regular expression": {"device": "sm_80", "kernel": 5},
        "env must be variables and their values": {"device": "sm_80", "env": ["HSA_XNACK=1"]},
        r"env\['HSA_XNACK'\] must be a text": {"device": "sm_80", "env": {"HSA_XNACK": 1}},
    }
    for words, arguments in wrong.items():
        with pytest.raises(TypeError, match=words):
            fatpack.explain(data, **arguments)  # type: ignore[arg-type]


def test_the_library_answers_as_the_command_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(offered.cuda("80 p75@8.7"))
    explained = fatpack.explain(path, ["sm_90", "sm_75"], driver="570", env={"CUDA_FORCE_PTX_JIT": "1"})
    arguments = ("--device", "sm_90", "--device", "sm_75", "--driver", "570", "--env", "CUDA_FORCE_PTX_JIT=1", "--json")
    _, out, _ = printed(capsys, str(path), *arguments)
    assert json.loads(out) == explained.to_dict()
    with pytest.raises(fatpack.TargetError):
        fatpack.explain(path, "RTX 9999")
    with pytest.raises(fatpack.UsageError):
        fatpack.explain(path, "sm_80", driver="535", cuda="12.2")


def test_a_file_without_any_device_code_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_bytes(b"no code")
    code, out, _ = printed(capsys, str(tmp_path / "text"), "--device", "sm_90")
    assert (code, out.splitlines()[0]) == (1, "sm_90: no device code was found")


def test_relocatable_ptx_is_reported_to_be_for_the_device_link(capsys: pytest.CaptureFixture[str]) -> None:
    path = FIXTURES / "cuda_fatbin" / "v130_reloc_ptx.fatbin"
    assert "relocatable PTX is for the device link" in printed(capsys, str(path), "--device", "sm_90")[1]


def test_a_library_that_was_not_searched_to_its_end_does_not_certainly_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its code loads containers by itself, and one for the device may be in the rest."""
    library = elf.Elf(type=3)
    false = bytes.fromhex("50ed55ba 0100 1000 0800000000000000") + bytes(range(8))
    library.add(".data", container("80") + false * 1200)
    path = tmp_path / "libx.so"
    path.write_bytes(library.build())
    code, out, _ = printed(capsys, str(path), "--device", "sm_90")
    assert code == 3
    assert "of what was read, the library is not known to run" in out
    assert "; not known: " in out
    assert "the rest is not searched" in out
    assert "fails" not in out
    code, out, _ = printed(capsys, str(path), "--device", "sm_80")
    assert "of what was read, the library runs" in out
