"""The commands agree on a file: their exit codes fit together, and none vouches for what another calls wrong."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest
from tests.builders import bitcode, fatbin, wheels
from tests.builders.packages import tarred
from tests.builders.policy_files import container, cubin
from tests.laws.rooms import FIXTURES, format_fixtures

import fatpack
from fatpack import formats
from fatpack.binary.archive import build_archive
from fatpack.commands.doctor.text import render_diagnosis
from fatpack.exit_codes import worst_exit_code
from fatpack.findings import CODES
from fatpack.main import main
from fatpack.record import Record
from fatpack.testing.helpers import damage_places, join_pieces, make_view

FILES = sorted(
    path
    for path in FIXTURES.rglob("*")
    if path.is_file() and path.suffix not in (".json", ".toml", ".txt", ".c", ".cu", ".py") and "src" not in path.parts
)


class Answers(Record):
    """What the commands say of one file: the verdicts of ``doctor`` and ``check --verify``, and all exit codes."""

    doctor: str
    check: str
    codes: dict[str, int]
    violations: tuple[str, ...]


def run(*words: str) -> int:
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")), contextlib.redirect_stderr(io.StringIO()):
        return main(list(words))


def answers(path: Path) -> Answers:
    doctor = fatpack.doctor(path)
    verified, listed = fatpack.check(path, verify=True), fatpack.check(path, forbid="sm_2*")
    explained = fatpack.explain(path, "sm_90")
    rows = [row for row in fatpack.rows([path]) if row.row == "file"]
    codes = {
        "doctor": doctor.exit_code,
        "check --verify": verified.exit_code,
        "check": listed.exit_code,
        "explain": explained.exit_code,
        "inspect": run("inspect", str(path)),
        "rows": worst_exit_code(row.exit_code or 0 for row in rows),
    }
    return Answers(doctor.verdict, verified.verdict, codes, tuple(item.code for item in verified.violations))


def assert_agreement(path: Path) -> Answers:
    """Assert that no command vouches for what another calls damaged, unread or empty."""
    said = answers(path)
    codes = said.codes
    worst = worst_exit_code(codes.values())
    told = f"{path.name}: {said.doctor}, {said.check}, {codes}"
    if worst > 1:  # damage and what is not read are never a mere warning of those that read everything
        assert codes["doctor"] == codes["check --verify"] == worst, told
    # What a compiler reads, and a cache, decides for no device: it is healthy, and nothing was checked.
    if said.doctor == "healthy" and not {"FP3318", "FP2807"} & set(said.violations):
        assert said.check in ("passed", "not judged"), told
    if said.check == "passed":
        assert said.doctor in ("healthy", "not judged"), told
    if said.doctor == "empty":
        assert "FP3302" in said.violations, told
    if codes["check --verify"] == 0:
        assert codes["doctor"] == codes["check"] == codes["inspect"] == codes["rows"] == 0, told
    assert codes["rows"] in (0, codes["inspect"]), told
    return said


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_the_commands_agree_on_each_fixture(path: Path) -> None:
    assert_agreement(path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), format_fixtures(), ids=[path.name for _, path in format_fixtures()])
def test_the_commands_agree_on_damaged_containers(name: str, path: Path, tmp_path: Path) -> None:
    """Every field of the headers is damaged, and here and there a byte of the rest."""
    data = path.read_bytes()
    view, room = make_view(data), formats.get_format(name)
    for at in damage_places(room.labels(view, room.parse(view)), 4)[:12]:
        broken = tmp_path / f"{at:x}{path.suffix}"
        broken.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        assert_agreement(broken)


def test_a_file_without_device_code_is_not_healthy_alone_nor_among_others(tmp_path: Path) -> None:
    host = (FIXTURES / "demo" / "host.o").read_bytes()
    wheel = tmp_path / "demo-1.5-py3-none-any.whl"
    wheel.write_bytes(wheels.wheel({f"demo/{number}.so": host for number in range(9)}))
    (tmp_path / "host.o").write_bytes(host)
    for path in (tmp_path / "host.o", wheel):
        assert assert_agreement(path).doctor == "empty"
        line = next(iter(render_diagnosis(fatpack.doctor(path))))
        assert line.startswith("no device code found: ")
    fatbin = FIXTURES / "cuda_fatbin" / "v112_all_ident.fatbin"
    assert fatpack.doctor([wheel, fatbin]).verdict == "healthy"


def test_images_that_cannot_be_inflated_are_not_vouched_for() -> None:
    path = FIXTURES / "cuda_fatbin" / "v130_ltoir.fatbin"
    found = fatpack.doctor(path)
    assert (found.verdict, found.images, found.images_found, found.exit_code) == ("not judged", 0, 1, 0)
    lines = list(render_diagnosis(found))
    assert "0 of 1 image" in lines[0]
    assert "check --verify --registered --strict" in lines[-1]
    checked = fatpack.check(path, verify=True)
    assert (checked.verdict, checked.exit_code) == ("not judged", 0)
    assert fatpack.check(path, verify=True, strict=True).exit_code == 1
    both = fatpack.doctor([path, FIXTURES / "cuda_fatbin" / "v112_all_ident.fatbin"])
    assert (both.verdict, both.images, both.images_found) == ("healthy", 2, 3)
    assert "2 of 3 images" in next(iter(render_diagnosis(both)))


def test_as_many_images_are_found_as_are_listed() -> None:
    for path in FILES:
        assert fatpack.doctor(path).images_found == sum(row.row == "image" for row in fatpack.rows([path])), path


def test_check_says_what_was_not_verified_as_doctor_does() -> None:
    path = FIXTURES / "cuda_fatbin" / "v112_all_ident.fatbin"
    said = [row for row in fatpack.doctor(path).not_verified if row.what.startswith("images")]
    assert said
    checked = fatpack.check(path, verify=True)
    assert checked.verdict == "passed"
    assert "intact" not in str(checked)
    for row in said:
        assert any(row.what in item.message and row.why in item.message for item in checked.violations)


def test_an_image_of_unknown_form_is_wrong_everywhere(tmp_path: Path) -> None:
    whole = FIXTURES / "syclbin" / "dpcpp-v2.syclbin"  # its native image is bytes of no known form
    said = assert_agreement(whole)
    assert (said.doctor, said.check, said.violations.count("FP3314")) == ("suspect", "failed", 1)
    assert {item.code for item in fatpack.doctor(whole).findings} >= {"FP1107"}
    path = tmp_path / "x.syclbin"
    path.write_bytes(whole.read_bytes().replace(b"\x03\x02\x23\x07", b"gone"))
    said = assert_agreement(path)
    assert (said.doctor, said.check) == ("damaged", "unreadable")


def test_a_tar_archive_with_a_flipped_checksum_is_damaged_for_all(tmp_path: Path) -> None:
    data = bytearray(tarred({"x.fatbin": (FIXTURES / "cuda_fatbin" / "v112_all_ident.fatbin").read_bytes()}))
    data[150] ^= 1
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    assert set(assert_agreement(path).codes.values()) == {3}


def test_a_library_of_device_functions_is_input_of_a_compiler_for_all(tmp_path: Path) -> None:
    (tmp_path / "libdevice.10.bc").write_bytes(bitcode.of_triple("nvptx64-nvidia-gpulibs"))
    (tmp_path / "gsan.ll").write_text(
        'source_filename = "gsan"\ntarget triple = "nvptx64-nvidia-cuda"\n\ndefine void @f() {\n  ret void\n}\n'
    )
    alone = fatpack.check(tmp_path, require="sm_90")
    assert [(item.code, item.severity) for item in alone.violations] == [("FP3302", "error"), *[("FP3318", "note")] * 2]
    assert fatpack.explain(tmp_path, "sm_90").exit_code == 1
    (tmp_path / "x.fatbin").write_bytes(container("90"))
    beside, explained = fatpack.check(tmp_path, require="sm_90"), fatpack.explain(tmp_path, "sm_90")
    assert (beside.verdict, explained.verdict) == ("passed", "runs")
    words = "input of a compiler, which no driver loads"
    assert [item.message for item in beside.violations] == [f"not checked: {words}"] * 2
    assert f"2 files not counted: {words}" in explained.devices[0].notes


def test_containers_without_kernels_alone_fail_for_none(tmp_path: Path) -> None:
    path = tmp_path / "stub.fatbin"
    path.write_bytes(fatbin.fatbin(fatbin.entry(cubin(75, ()), sm=75)))
    explained = fatpack.explain(path, "sm_90")
    assert (explained.exit_code, explained.verdict) == (fatpack.check(path, require="sm_90").exit_code, "runs")
    assert explained.devices[0].verdict == "sm_90: the only container has no kernel, so that no launch can fail"


def test_doctor_reads_all_symbols_that_rows_of_kernels_and_reports_read(tmp_path: Path) -> None:
    data = (FIXTURES / "kpack" / "needs.zstd.kpack").read_bytes()
    path, codes = tmp_path / "x.kpack", set()
    for bit in range(8):
        path.write_bytes(data[:0x2E9] + bytes([data[0x2E9] ^ 1 << bit]) + data[0x2EA:])
        code = run("report", str(path), "-o", str(tmp_path / f"{bit}.html"))
        codes.add(code)
        assert (fatpack.doctor(path).exit_code == 3) is (code == 3)
    assert 3 in codes


def test_a_suspect_archive_member_is_named_and_read(tmp_path: Path) -> None:
    """Findings in members of archives are those of the file: named with their place, and nothing is unreadable."""
    text = (FIXTURES / "cuda" / "ptx" / "k1.compute_80.ptx").read_bytes()[:1700]
    member = fatbin.fatbin(fatbin.entry(text + b"\0", fatbin.PTX, sm=80))
    path = tmp_path / "lib(x).a"
    path.write_bytes(join_pieces(build_archive([(name, make_view(member)) for name in (b"a.o", b"b(1).o")])))
    said = assert_agreement(path)
    assert (said.doctor, said.check) == ("suspect", "failed")
    assert said.codes["doctor"] == said.codes["check --verify"] == 1
    told = [item for item in fatpack.check(path, verify=True).violations if item.is_broken]
    assert [item.code for item in told] == ["FP1106", "FP1106"]
    assert all(item.message.startswith("at 0x") and "the text ends inside braces" in item.message for item in told)
    assert "(a.o" in told[0].message and "(b(1).o" in told[1].message


@pytest.mark.parametrize("form", ["ptx", "cubin"])
def test_who_reads_kernels_says_the_same_of_bytes_that_are_none(form: str, tmp_path: Path) -> None:
    """A finding has one severity for all commands, and no command passes over an image of which nothing can be read."""
    kind = fatbin.PTX if form == "ptx" else fatbin.ELF
    path = tmp_path / "x.fatbin"
    path.write_bytes(fatbin.fatbin(fatbin.entry(b"hello world " * 10, kind, sm=90)))
    code = assert_agreement(path).codes["doctor"]
    assert code == (1 if form == "ptx" else 3)
    wrong = {(item.code, item.severity) for item in fatpack.doctor(path).findings}
    assert wrong >= {("FP1105", "note"), ("FP1107", "warning")}
    assert (("FP1104", "error") in wrong) is (form == "cubin")
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(printed):
        assert main(["inspect", "--json", "--kernels", str(path)]) == code
    printed.seek(0)
    (record,) = json.load(printed)["files"]
    assert {(item["code"], item["severity"]) for item in record["findings"]} == wrong
    assert run("inspect", "--by", "kernel", str(path)) == code
    assert run("inspect", str(path)) == 0


def test_each_finding_has_the_severity_of_its_code_for_all() -> None:
    for path in FILES:
        told = {(item.code, item.severity) for item in fatpack.doctor(path).findings}
        assert told == {(code, CODES[code][0]) for code, _ in told}, path
