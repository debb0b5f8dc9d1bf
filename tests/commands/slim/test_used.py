"""Slimming by use: which containers stay, what cannot run any more, and that it is said."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import jsonschema
import pytest
from tests.laws.rooms import FIXTURES
from tests.registration.analysis.test_asked_kernels import linked

import fatpack as library
from fatpack.commands.slim import used
from fatpack.errors import FatpackError, UsageError
from fatpack.main import main
from fatpack.text.schemas import schema_text

#: container 0: add_one and two instances of scale, for sm_80, sm_90 and PTX 9.0; container 1: stat_k and lb, for
#: sm_75, sm_90a and PTX 7.5
LIBRARY = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"
OBJECT = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"


def archs(path: Path) -> list[list[str]]:
    with library.open(path) as file:
        return [[image.label for image in found.images] for found in file.containers]


def profile(folder: Path, *names: str) -> str:
    path = folder / "used.txt"
    path.write_text("\n".join(names))
    return str(path)


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    return Path(shutil.copy(LIBRARY, tmp_path / "libtwo.so"))


def slim(lib: Path, *words: str) -> tuple[int, Path]:
    out = lib.with_name("out.so")
    return main(["slim", str(lib), *words, "-o", str(out), "--force"]), out


def test_an_unused_container_keeps_the_ptx_that_serves_what_it_served(
    lib: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = slim(lib, "--used", profile(lib.parent, "add_one"))
    assert code == 0
    assert archs(out) == [["sm_80", "sm_90", "compute_90"], ["compute_75"]]
    said = capsys.readouterr().out
    assert "0 kernels of 5 cannot run any more; a program that needs one fails at that call" in said
    assert "1 used; 1 unused: compiled from PTX at first use" in said
    assert "--for DEVICE saves more" in said


def test_one_without_such_ptx_stays(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = slim(lib, "--used", profile(lib.parent, "_Z6stat_kPi"))
    assert (code, archs(out)) == (0, archs(lib))
    assert "--drop-unused empties 1 container more" in capsys.readouterr().out
    code, out = slim(lib, "--used", profile(lib.parent, "_Z6stat_kPi"), "--for", "sm_90")
    assert (code, archs(out)) == (0, [["compute_90"], ["compute_75", "sm_90a"]])


def test_drop_unused_empties_it_and_the_exit_code_says_so(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = profile(lib.parent, "lb(int*)")
    code, out = slim(lib, "--used", names, "--for", "sm_90", "--drop-unused")
    assert (code, archs(out)) == (1, [[], ["compute_75", "sm_90a"]])
    said = capsys.readouterr().out
    assert "1 kernel name: 1 demangled, 0 unmatched" in said
    assert "3 kernels of 5 cannot run any more" in said
    for accepted, expected in (("3", 0), ("2", 1), ("0", 1)):
        assert slim(lib, "--used", names, "--drop-unused", "--accept-missing", accepted)[0] == expected
    assert slim(lib, "--used", names, "--accept-missing", "3")[0] == 1


def test_the_certificate_lists_what_fails(lib: Path) -> None:
    certificate = lib.with_name("proof.json")
    names = profile(lib.parent, "stat_k", "of_another_library")
    code, _ = slim(lib, "--used", names, "--drop-unused", "--certificate", str(certificate))
    document = json.loads(certificate.read_text())
    jsonschema.validate(document, json.loads(schema_text("certificate")))
    assert code == 1
    assert document["proved"]
    use = document["use"]
    assert [(one["container"], one["reason"]) for one in use["containers"]] == [(0, "emptied"), (1, "name")]
    kernels = ["_Z5scaleIdEvPT_S0_", "_Z5scaleIfEvPT_S0_", "add_one"]
    assert sorted(one["kernel"] for one in use["lost"]) == kernels
    assert {one["error"] for one in use["lost"]} == {209}
    assert (use["lost_count"], use["kernel_count"]) == (3, 5)
    assert use["profiles"][0]["names"] == 2
    assert use["matched"] == {"mangled": 0, "demangled": 1, "pattern": 0, "cut": 0, "short": 0}


def test_json_has_the_same(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", str(lib), "--used", profile(lib.parent, "add_one"), "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("slim")))
    use = document["files"][0]["use"]
    assert use["jit"] == [{"container": 1, "kernel": name, "arch": "compute_75"} for name in ("_Z6stat_kPi", "_Z2lbPi")]
    assert use["lost"] == []


def test_a_profile_of_another_program_writes_nothing(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = profile(lib.parent, "no_such_kernel")
    code, out = slim(lib, "--used", names, "--drop-unused")
    assert (code, out.exists()) == (2, False)
    assert "none of the 1 name in" in capsys.readouterr().err
    folder = lib.parent / "site"
    folder.mkdir()
    shutil.copy(lib, folder)
    before = (folder / "libtwo.so").read_bytes()
    assert main(["slim", str(folder), "--used", names, "--drop-unused", "--in-place"]) == 2
    assert (folder / "libtwo.so").read_bytes() == before
    other = Path(shutil.copy(lib, lib.with_name("other.so")))
    assert main(["slim", str(lib), str(other), "--used", names, "--drop-unused", "--in-place"]) == 2
    assert lib.read_bytes() == other.read_bytes() == before


def test_several_profiles_are_a_union(lib: Path) -> None:
    first = profile(lib.parent, "add_one")
    second = lib.with_name("second.txt")
    second.write_text("stat_k")
    code, out = slim(lib, "--used", first, "--used", str(second), "--drop-unused")
    assert (code, archs(out)) == (0, archs(lib))


def test_a_library_that_chooses_kernels_stays_whole(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chooser = lib.rename(lib.with_name("libcufft.so.11"))
    names = profile(lib.parent, "add_one")
    code, out = slim(chooser, "--used", names, "--drop-unused")
    assert (code, archs(out)) == (0, archs(LIBRARY))
    assert "cufft chooses among kernels while it runs, and stays as it is" in capsys.readouterr().out
    for spelling in ("cuFFT", "libcufft.so.11", "libcufft"):
        code, out = slim(chooser, "--used", names, "--drop-unused", "--by-use-also", spelling)
        assert (code, archs(out)) == (1, [["sm_80", "sm_90", "compute_90"], []])
        assert "other inputs may need kernels that are gone" in capsys.readouterr().out


def test_units_of_a_device_link_are_one(tmp_path: Path) -> None:
    lib = Path(shutil.copy(FIXTURES / "cuda_fatbin" / "hosts" / "librel.so", tmp_path / "librel.so"))
    with library.open(lib) as file:
        kernels = [name for found in file.containers for image in found.images for name in image.kernel_names]
    code, out = slim(lib, "--used", profile(tmp_path, kernels[0]), "--drop-unused")
    assert (code, archs(out)) == (0, archs(lib))


def test_an_object_loses_unused_containers_too(tmp_path: Path) -> None:
    lib = Path(shutil.copy(OBJECT, tmp_path / "single.o"))
    with library.open(lib) as file:
        kernel = file.containers[0].images[0].kernel_names[0]
    assert slim(lib, "--used", profile(tmp_path, kernel), "--drop-unused")[0] == 0


def test_a_wheel_is_slimmed_by_use(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
        made.write(LIBRARY, "demo/libtwo.so")
        made.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        made.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr("demo-1.0.dist-info/RECORD", "demo-1.0.dist-info/RECORD,,\n")
    names = profile(tmp_path, "add_one")
    certificate = tmp_path / "proof.json"
    words = ["--used", names, "--drop-unused", "-d", str(tmp_path / "out"), "--certificate", str(certificate)]
    assert main(["slim", str(wheel), *words]) == 1
    (made_wheel,) = (tmp_path / "out").iterdir()
    assert "used" in made_wheel.name
    (proved,) = json.loads(certificate.read_text())["libraries"]
    assert [one["reason"] for one in proved["certificate"]["use"]["containers"]] == ["name", "emptied"]
    with pytest.raises(UsageError, match="none of the 1 name"):
        library.slim(wheel, tmp_path / "none", used=profile(tmp_path, "other"), drop_unused=True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--drop-unused", "--for", "sm_90"], "--drop-unused goes with --used"),
        (["--accept-missing", "3", "--for", "sm_90"], "--accept-missing goes with --used"),
        (["--by-use-also", "cuFFT", "--for", "sm_90"], "--by-use-also goes with --used"),
        (["--lossless", "--used", "used.txt"], "--lossless keeps every image"),
        (["--used", "no/such/file"], "no/such/file"),
    ],
)
def test_options_that_contradict_are_refused(
    lib: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out = slim(lib, *words)
    assert code in (2, 5)
    assert not out.exists()
    assert problem in capsys.readouterr().err


def test_the_library_does_the_same(lib: Path) -> None:
    names = profile(lib.parent, "lb")
    code, out = slim(lib, "--used", names, "--drop-unused")
    made = library.slim(lib, lib.with_name("2.so"), used=names, drop_unused=True)
    assert made.exit_code == code == 1
    assert made.lost == ("_Z5scaleIdEvPT_S0_", "_Z5scaleIfEvPT_S0_", "add_one")
    assert lib.with_name("2.so").read_bytes() == out.read_bytes()
    assert library.slim(lib, lib.with_name("3.so"), used=[names], drop_unused=True, accept_missing=3)
    with pytest.raises(FatpackError, match="drop_unused goes with used"):
        library.slim(lib, lib.with_name("4.so"), drop_unused=True)


def test_every_reason_has_words_and_is_in_the_schemas() -> None:
    for name in ("slim", "certificate"):
        schema = json.loads(schema_text(name))
        listed = schema["$defs"]["use"]["properties"]["containers"]["items"]["properties"]["reason"]["enum"]
        assert set(listed) == set(used.REASONS)


def test_other_instances_of_what_was_used_stay(tmp_path: Path) -> None:
    unit = (
        "template <class T> __global__ void f(T *p) {{ *p += 1; }}\n"
        'extern "C" void run_{0}({0} *p) {{ f<{0}><<<1, 1>>>(p); }}'
    )
    other = '__global__ void other(int *p) { *p += 2; }\nextern "C" void run_other(int *p) { other<<<1, 1>>>(p); }'
    path = linked(tmp_path, used=unit.format("int"), sibling=unit.format("float"), other=other)
    (tmp_path / "names.txt").write_text("_Z1fIiEvPT_")
    out = tmp_path / "slim.so"
    for more, kept, lost in (
        ([], {"_Z1fIiEvPT_", "_Z1fIfEvPT_"}, 1),
        (["--widen", "none"], {"_Z1fIiEvPT_"}, 2),
    ):
        words = [
            "--for",
            "sm_80",
            "--used",
            str(tmp_path / "names.txt"),
            "--drop-unused",
            "--accept-missing",
            str(lost),
        ]
        assert main(["slim", str(path), *words, *more, "-o", str(out), "--force"]) == 0
        with library.open(out) as file:
            assert {name for one in file.containers for image in one.images for name in image.kernel_names} == kept
