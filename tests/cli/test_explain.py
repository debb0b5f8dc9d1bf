"""``fatpack explain``: packed containers in, the verdict and the exit code out."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.builders import offered
from tests.builders.packages import zipped
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.cli import main
from fatpack.report.answers.explain import render
from fatpack.report.schemas import text as schema_text

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


def test_containers_that_answer_alike_are_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(offered.cuda("80"))
    (tmp_path / "d").write_bytes(offered.cuda("90"))
    _, out, _ = printed(capsys, str(tmp_path), "--device", "sm_90")
    assert out.startswith("sm_90: 1 of 4 containers run, 3 fail: no kernel image")
    assert out.count("  fails: 3 containers") == 1
    assert "3 containers of 3 files" in out
    assert out.splitlines()[1] == "  fails: a, b, c; runs: d"


def test_commands_and_names_of_errors_are_whole_on_a_narrow_terminal() -> None:
    explained = fatpack.explain(offered.cuda("90"), "sm_87", driver=535)
    lines = list(render(explained, width=60))
    assert max(map(len, lines)) <= 60
    words = " ".join(lines).split()
    assert {"arch=compute_87,code=sm_87", "cudaErrorNoKernelImageForDevice)"} <= set(words)
    assert words == " ".join(render(explained)).split()


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


def test_a_file_that_cannot_be_read_is_said_and_decides_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(offered.cuda("90")[:-40])
    code, out, _ = printed(capsys, str(path), "--device", "sm_90")
    assert code == 3
    assert f"not read: {path}" in out
    code, out, _ = printed(capsys, str(tmp_path / "none"), "--device", "sm_90")
    assert code == 5
    assert "not read: " in out


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
