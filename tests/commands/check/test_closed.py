"""A check fails closed: what was not read, or not there to be checked, is no pass; what cannot be meant is refused."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.builders import fatbin, linked_elf
from tests.builders.packages import tarred, zipped
from tests.builders.policy_files import container, library

import fatpack
from fatpack.commands.check.headline import check_headline
from fatpack.commands.check.policy import Policy
from fatpack.commands.check.request import check_policy
from fatpack.errors import UsageError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*paths: str, **policy: Any) -> tuple[int, list[str]]:
    made = check_policy(paths, Policy(**policy))
    return made.exit_code, [item.code for item in made.violations]


RULES = [{"forbid": ("sm_5*",)}, {"registered": True}, {"uniform": True}]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_where_no_device_code_is_nothing_was_checked(rule: dict[str, Any]) -> None:
    Path("empty").mkdir()
    Path("texts").mkdir()
    Path("texts/x.bin").write_bytes(b"nothing of the kind")
    Path("x.whl").write_bytes(zipped({"x/c.so": library()}))
    for name in ("empty", "texts", "x.whl"):
        code, codes = found(name, **rule)
        assert (code, "FP3302" in codes) == (1, True), name
    (said,) = (item for item in check_policy(["empty"], Policy(**rule)).violations if item.code == "FP3302")
    assert "nothing was checked" in said.message


def test_bytes_that_are_no_container_may_be_one() -> None:
    data = container("80")
    broken = data + b"\xff" * 64
    Path("x.so").write_bytes(linked_elf.build([data]).data)
    assert found("x.so", forbid=("sm_5*",)) == (0, [])
    made = linked_elf.build([data, broken]).data
    Path("y.so").write_bytes(made)
    codes = [code for row in fatpack.rows("y.so") for code in row.findings]
    assert "FP1002" in codes
    assert found("y.so", forbid=("sm_5*",)) == (fatpack.doctor("y.so").exit_code, ["FP3301"]) == (1, ["FP3301"])


def test_records_that_lead_nowhere_are_no_registration() -> None:
    data = bytearray(linked_elf.build([container("80")]).data)
    # The magic of the record through which the runtime finds the fat binary
    at = data.index((0x466243B1).to_bytes(4, "little"))
    data[at : at + 4] = b"gone"
    Path("x.so").write_bytes(data)
    stated = {code for row in fatpack.rows("x.so") for code in row.findings if code.startswith("FP303")}
    assert stated
    made = check_policy(["x.so"], Policy(registered=True))
    assert stated <= {item.code for item in made.violations if item.is_broken}
    assert made.exit_code == 1


def test_what_it_grew_from_must_be_measured_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("old/inner").mkdir(parents=True)
    Path("old/inner/new.so").write_bytes(library("80"))
    Path("new.so").write_bytes(library("80"))
    assert found("new.so", max_growth="1GB", against="old") == (0, [])
    listed = os.scandir

    def refusing(path: Any) -> Any:  # for root, everything can be read
        if os.path.basename(path) == "inner":
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert found("new.so", max_growth="1GB", against="old") == (5, ["FP3301"])


def test_what_it_grew_from_has_to_be_there() -> None:
    Path("new.so").write_bytes(library("80"))
    assert found("new.so", max_growth="1GB", against="gone") == (5, ["FP3301"])
    assert found("new.so", max_growth="1GB", against="gone/*.so") == (5, ["FP3301"])
    assert found("new.so", max_growth="5%", against="new.so") == (0, [])


def test_what_was_not_looked_into_is_counted() -> None:
    Path("d").mkdir()
    Path("d/x.so").write_bytes(library("80"))
    Path("d/y.py").write_text("nothing")
    Path("d/z.so").symlink_to("x.so")
    made = check_policy(["d"], Policy(forbid=("sm_5*",)))
    assert (made.exit_code, made.unlooked.links, made.unlooked.passed) == (0, 1, 1)
    assert made.to_dict()["policy"]["not_looked_into"]["links"] == 1


@pytest.mark.parametrize("size", [True, math.nan, 1.5, b"1MB"])
def test_sizes_that_are_none_are_refused_in_python(size: Any) -> None:
    Path("x.so").write_bytes(library("80"))
    with pytest.raises(TypeError, match="max_size"):
        fatpack.check("x.so", max_size=size)


def test_calls_that_cannot_be_meant_are_refused() -> None:
    for call in (lambda: fatpack.check([], max_size=1), lambda: fatpack.check("x", max_size=-1)):
        refused: Callable[[], object] = call
        with pytest.raises(UsageError):
            refused()
    with pytest.raises(UsageError):
        fatpack.check("x", max_size="")


def test_verify_reads_all_there_is() -> None:
    import zstandard
    from tests.builders.policy_files import cubin

    # A cubin whose header is right, and whose stream is damaged behind it
    image = cubin(80, ["k"]) + os.urandom(300_000)
    stream = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(image))
    stream[-1] ^= 0xFF  # of the checksum
    one = fatbin.entry(bytes(stream), sm=80, flags=0x8011, inflated=len(image))
    Path("x.so").write_bytes(linked_elf.build([fatbin.fatbin(one)]).data)
    assert found("x.so", forbid=("sm_5*",)) == (0, [])
    assert found("x.so", verify=True) == (3, ["FP3301"])
    Path("y.so").write_bytes(library("80 90 p90"))
    assert found("y.so", verify=True) == (0, ["FP3316"])


def test_verify_holds_wheels_against_their_records() -> None:
    record = b"x/a.so,sha256=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA,\nx-1.dist-info/RECORD,,\n"
    Path("x-1-py3-none-any.whl").write_bytes(zipped({"x/a.so": library("80"), "x-1.dist-info/RECORD": record}))
    assert found("x-1-py3-none-any.whl", forbid=("sm_5*",)) == (0, [])
    assert found("x-1-py3-none-any.whl", verify=True) == (1, ["FP3315", "FP3316"])


def test_verify_fails_where_doctor_warns() -> None:
    data = tarred({"x/a.so": library("80")})
    Path("x.tar.gz").write_bytes(gzip.compress(data))
    assert found("x.tar.gz", verify=True) == (fatpack.doctor("x.tar.gz").exit_code, ["FP3316"]) == (0, ["FP3316"])
    Path("y.tar.gz").write_bytes(gzip.compress(data) + b"rubbish")
    assert fatpack.doctor("y.tar.gz").exit_code == 1
    assert found("y.tar.gz", verify=True) == (1, ["FP1706", "FP3316"])
    assert found("y.tar.gz", forbid=("sm_5*",)) == (0, [])
    made = check_policy(["y.tar.gz"], Policy(verify=True))
    assert check_headline(made).startswith("failed: suspect")


def test_a_file_of_a_package_with_another_checksum_is_not_read() -> None:
    data = zipped({"x/a.so": library("80"), "x/readme.bin": b"nothing " * 1000})
    for name, what in (("x/readme.bin", {"verify": True}), ("x/a.so", {"forbid": ("sm_5*",)})):
        broken = bytearray(data)
        for magic, crc_at, name_at in ((b"PK\3\4", 14, 30), (b"PK\1\2", 16, 46)):
            at = broken.index(magic)
            while broken[at + name_at : at + name_at + len(name)] != name.encode():
                at = broken.index(magic, at + 4)
            broken[at + crc_at] ^= 0xFF
        Path("x.whl").write_bytes(broken)
        code, codes = found("x.whl", **what)
        assert (code, "FP3301" in codes) == (3, True), name


def test_every_output_says_what_was_not_looked_into() -> None:
    import json
    from xml.etree import ElementTree

    from fatpack.commands.check.formats import github_summary, junit_lines, sarif_document, workflow_commands

    Path("d").mkdir()
    Path("d/x.so").write_bytes(library("80"))
    Path("d/z.so").symlink_to("x.so")
    made = check_policy(["d"], Policy(forbid=("sm_5*",)))
    words = "skipped: 1 link"
    assert words in "\n".join(workflow_commands(made))
    assert words in "\n".join(github_summary(made))
    assert words in json.dumps(sarif_document(made)["runs"][0]["invocations"])
    (said,) = ElementTree.fromstring("\n".join(junit_lines(made)).encode()).iter("system-out")
    assert said.text == words
    plain = check_policy(["d/x.so"], Policy(forbid=("sm_5*",)))
    assert "skipped: " not in "\n".join([*workflow_commands(plain), *github_summary(plain), *junit_lines(plain)])


def test_device_code_in_a_format_that_is_not_read_is_named() -> None:
    Path("both").mkdir()
    Path("both/x.so").write_bytes(linked_elf.build([container("80")]).data)
    for name in ("shader.dxil", "default.metallib", "notes"):
        Path("both", name).write_bytes(b"MTLB" + bytes(60))
    made = check_policy(["both"], Policy(forbid=("sm_5*",)))
    said = [(item.code, item.severity, item.path) for item in made.violations]
    assert said == [("FP3317", "note", f"both/{name}") for name in ("default.metallib", "shader.dxil")]
    assert (made.exit_code, made.verdict) == (0, "passed")
