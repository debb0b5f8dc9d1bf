"""``fatpack doctor``: what it prints, and its exit codes."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import zstandard
from tests.builders import amd_stores, fatbin, linked_elf, wheels
from tests.builders.packages import tarred
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.binary.archive import build_archive
from fatpack.binary.symbols import archive_symbols
from fatpack.commands.doctor.model import CHECKS, NO_IMAGE_READ
from fatpack.findings import CODES
from fatpack.main import main
from fatpack.testing.helpers import make_view
from fatpack.text.schemas import schema_text

Ran = Callable[..., tuple[int, list[str]]]

FATBIN = (FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin").read_bytes()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    monkeypatch.chdir(tmp_path)

    def _run(*arguments: str) -> tuple[int, list[str]]:
        code = main(["doctor", *arguments])
        printed = capsys.readouterr()
        return code, (printed.out + printed.err).splitlines()

    return _run


def test_a_healthy_file(run: Ran) -> None:
    Path("x.fatbin").write_bytes(FATBIN)
    code, lines = run("x.fatbin")
    assert code == 0
    assert lines[0] == "healthy: 1 file, 4 images, 10.3 kB inflated and parsed"
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["verified", "checked", "wrong"],
        ["files", "1", "-"],
        ["containers", "1", "-"],
        ["images", "4", "-"],
    ]
    assert lines[-2] == "not verified"
    assert "images without any stored hash" in lines[-1]


def test_a_damaged_file_among_healthy_ones(run: Ran) -> None:
    Path("x.fatbin").write_bytes(FATBIN)
    Path("y.fatbin").write_bytes(FATBIN[:-700])
    code, lines = run("x.fatbin", "y.fatbin")
    assert code == 3
    assert lines[0].startswith("damaged: 1 of 2 files has damage; ")
    assert "findings" in lines
    assert "  y.fatbin" in lines


def test_packages_are_counted_with_their_files(run: Ran) -> None:
    damaged = bytearray(gzip.compress(tarred({"x.fatbin": FATBIN})))
    damaged[-8] ^= 0xFF  # of the CRC-32
    Path("x.tar").write_bytes(tarred({"y.tar.gz": bytes(damaged), "z.fatbin": FATBIN}))
    code, lines = run("x.tar")
    assert code == 3
    assert lines[0].startswith("damaged: 2 of 4 files and packages have damage; ")
    assert "  x.tar!y.tar.gz!x.fatbin" in lines and "  x.tar!y.tar.gz" in lines


def test_registrations_in_damaged_bytes_are_not_called_unsupported(run: Ran) -> None:
    library = linked_elf.build([FATBIN]).data
    damaged = bytearray(gzip.compress(tarred({"x.so": library})))
    damaged[-8] ^= 0xFF  # of the CRC-32
    Path("x.tar.gz").write_bytes(bytes(damaged))
    code, lines = run("x.tar.gz")
    assert code == 3
    assert "  1  registrations: its bytes are damaged or could not be read" in lines


def test_ptx_that_is_cut_is_suspect(run: Ran) -> None:
    text = (FIXTURES / "cuda" / "ptx" / "k1.compute_80.ptx").read_bytes()
    Path("x.ptx").write_bytes(text)
    Path("y.ptx").write_bytes(text[:1700])
    Path("y.fatbin").write_bytes(fatbin.fatbin(fatbin.entry(text[:1700] + b"\0", fatbin.PTX, sm=80)))
    assert run("x.ptx")[0] == 0
    for name in ("y.ptx", "y.fatbin"):
        code, lines = run(name)
        assert (code, lines[0].split(":")[0]) == (1, "suspect")
        assert any("warning FP1106" in line and "the text ends inside braces, 1 of which" in line for line in lines)


def test_holes_of_sparse_files_cost_nothing(run: Ran) -> None:
    size = 60 << 30
    member = tarfile.TarInfo("big.bin")
    member.size = len(FATBIN)
    member.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.name": "big.bin",
        "GNU.sparse.size": str(size),
        "GNU.sparse.map": f"{size // 2},{len(FATBIN)}",
    }
    with tarfile.open("x.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(FATBIN))
    before = time.process_time()
    code, lines = run("--deep", "x.tar")
    assert (code, lines[0]) == (0, "healthy: 1 file, 4 images, 10.3 kB inflated and parsed")
    assert time.process_time() - before < 5


def test_a_file_that_cannot_be_read(run: Ran) -> None:
    code, lines = run("missing.so")
    assert code == 5
    assert lines[0].startswith("unread: 1 file, 0 images")
    assert any("No such file" in line for line in lines)


def test_a_file_without_device_code_says_so(run: Ran) -> None:
    Path("text.bin").write_bytes(b"nothing\n" * 9)
    code, lines = run("text.bin")
    assert (code, lines[0]) == (1, "no device code found: 1 file read")
    assert any("1  file without device code: " in line for line in lines)


def test_the_document_follows_its_schema(run: Ran) -> None:
    Path("y.fatbin").write_bytes(FATBIN[:-700])
    code, lines = run("--json", "y.fatbin")
    document = json.loads("\n".join(lines))
    jsonschema.validate(document, json.loads(schema_text("doctor")))
    assert (document["exit_code"], document["verdict"]) == (code, "damaged") == (3, "damaged")
    assert run("--schema")[1] == schema_text("doctor").splitlines()


def test_a_wheel_is_compared_with_its_record(run: Ran) -> None:
    files = {"demo/x.fatbin": FATBIN, "demo/__init__.py": b"import this\n"}
    Path("demo-1.5-py3-none-any.whl").write_bytes(wheels.wheel(files))
    found = fatpack.doctor("demo-1.5-py3-none-any.whl")
    counts = {row.what: (row.checked, row.wrong) for row in found.verified}
    assert found
    assert (counts["checksums"], counts["records"]) == ((5, 0), (4, 0))
    for name, changed in (("demo/x.fatbin", FATBIN[:-1] + b"!"), ("demo/__init__.py", b"import that\n")):
        stored = wheels.files_of(files)
        stored[name] = changed
        Path("bad.whl").write_bytes(wheels.packed(stored))
        found = fatpack.doctor("bad.whl")
        assert [item.code for item in found.findings if item.code.startswith("FP36")] == ["FP3603"]
        assert name in found.findings[-1].message
        assert found.exit_code == 3


def test_a_record_of_other_digests_is_compared_and_in_a_package_that_is_no_file_that_is_not_reported_as_damage(
    run: Ran,
) -> None:
    stored = wheels.files_of({"demo/x.fatbin": FATBIN})
    record = stored["demo-1.5.dist-info/RECORD"].decode()
    stored["demo-1.5.dist-info/RECORD"] = record.replace(
        wheels.digest(FATBIN), wheels.digest(FATBIN, "sha384")
    ).encode()
    name = "demo-1.5-py3-none-any.whl"
    Path(name).write_bytes(wheels.packed(stored))
    Path("outer.zip").write_bytes(wheels.packed({name: Path(name).read_bytes()}))
    for path, checksums, records in ((name, 4, 3), ("outer.zip", 5, 2)):
        found = fatpack.doctor(path)
        counts = {row.what: (row.checked, row.wrong) for row in found.verified}
        assert (found.verdict, counts["checksums"], counts["records"]) == ("healthy", (checksums, 0), (records, 0))
    why = [item.why for item in found.not_verified if item.what == "files of wheels"]
    assert "RECORD has a digest of sha384 of them, in a package that is no file here" in why


def test_files_that_record_does_not_list_and_files_that_are_not_there(run: Ran) -> None:
    stored = wheels.files_of({"demo/a.py": b"1\n"})
    del stored["demo/a.py"]
    stored["demo/b.py"] = b"2\n"
    Path("odd.whl").write_bytes(wheels.packed(stored))
    found = fatpack.doctor("odd.whl")
    assert sorted(item.message for item in found.findings) == [
        "RECORD lists demo/a.py, which is not in the wheel",
        "demo/b.py is in the wheel, and RECORD does not list it",
    ]
    assert found.exit_code == 1


def test_a_damaged_byte_in_a_zip_archive_is_found_by_its_checksum(run: Ran) -> None:
    data = bytearray(wheels.packed({"a.py": os.urandom(4000)}))
    data[1000] ^= 1
    Path("x.zip").write_bytes(data)
    code, lines = run("x.zip")
    assert code == 3
    assert any("FP1710" in line for line in lines)


def test_a_pattern_that_nothing_matches_is_a_mistake(run: Ran) -> None:
    assert run("no/such/*.so")[0] == 2
    with pytest.raises(fatpack.UsageError):
        fatpack.doctor([])
    with pytest.raises(TypeError):
        fatpack.doctor(FIXTURES, exclude="*.so")
    with pytest.raises(TypeError):
        fatpack.doctor(b"bytes")  # type: ignore[arg-type]


INFO = "demo-1.5.dist-info"


def odd(*names: str) -> list[str]:
    return [item.code for item in fatpack.doctor(names).findings if item.severity == "warning"]


def test_a_wheel_that_is_none_or_has_more_than_a_wheel_is_not_healthy(run: Ran) -> None:
    whole, name = wheels.wheel({"demo/a.py": b"1\n"}), "demo-1.5-py3-none-any.whl"
    Path(name).write_bytes(whole)
    assert odd(name) == []
    for data, code in ((whole + whole, "FP1706"), (b"junk" + whole, "FP3607"), (b"", "FP3607"), (b"text", "FP3607")):
        Path(name).write_bytes(data)
        assert odd(name) == [code]
        assert run(name)[0] == 1


def test_a_wheel_with_no_record_or_several_is_not_compared_and_that_is_reported(
    run: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, stored = "demo-1.5-py3-none-any.whl", wheels.files_of({"demo/a.py": b"1\n"})
    for change, why in (
        (lambda: {key: data for key, data in stored.items() if not key.endswith("RECORD")}, "the wheel has no RECORD"),
        (lambda: {**stored, "other-2.dist-info/RECORD": b""}, "2 RECORD files"),
    ):
        Path(name).write_bytes(wheels.packed(change()))
        found = fatpack.doctor(name)
        assert [item.code for item in found.findings] == ["FP3604"]
        assert why in {item.why for item in found.not_verified}
    Path(name).write_bytes(wheels.packed(stored))
    monkeypatch.setattr("fatpack.commands.doctor.package_checksums.MAX_RECORD_SIZE", 10)
    assert odd(name) == ["FP3604"]


def test_a_record_that_lists_a_file_twice_is_a_warning_even_if_one_line_is_right(run: Ran) -> None:
    name, files = "demo-1.5-py3-none-any.whl", wheels.files_of({"demo/a.py": b"1\n"})
    files[f"{INFO}/RECORD"] += b"demo/a.py,sha256=no,1\n"
    Path(name).write_bytes(wheels.packed(files))
    found = fatpack.doctor(name)
    assert [item.message for item in found.findings if item.code == "FP3604"] == ["RECORD lists demo/a.py twice"]


def test_the_record_of_a_package_inside_a_wheel_is_a_file_as_others(run: Ran) -> None:
    Path("demo-1.5-py3-none-any.whl").write_bytes(
        wheels.wheel({"demo/_vendor/x-1.dist-info/RECORD": b"x.py,,\n", "demo/a.py": b"1\n"})
    )
    found = fatpack.doctor("demo-1.5-py3-none-any.whl")
    assert (found.verdict, found.findings) == ("empty", ())
    assert {row.what: row.checked for row in found.verified}["records"] == 4


@pytest.mark.parametrize("name", ["x.fatbin", "x.cubin", "x.hipfb", "x.kpack", "x.hsaco", "x.syclbin", "x.tar.gz"])
def test_a_file_that_is_not_what_its_name_says_is_suspect(run: Ran, name: str) -> None:
    for data in (b"", bytes(5000)):
        Path(name).write_bytes(data)
        assert odd(name) == ["FP3607"]
    Path("folder").mkdir()
    Path("folder", name).write_bytes(bytes(50))
    assert odd("folder") == ["FP3607"]


def test_an_empty_folder_has_nothing_to_verify(run: Ran) -> None:
    Path("empty").mkdir()
    code, lines = run("empty")
    assert (code, lines[0]) == (1, "nothing verified: no file was read")
    document = json.loads("\n".join(run("--json", "empty")[1]))
    jsonschema.validate(document, json.loads(schema_text("doctor")))
    assert document["verdict"] == "empty"


def test_what_a_limit_ended_is_not_damaged(run: Ran) -> None:
    Path("x.whl").write_bytes(wheels.wheel({"demo/a.py": bytes(1 << 20)}))
    found = fatpack.doctor("x.whl", max_inflated=1000)
    assert "FP1005" in {item.code for item in found.findings}
    assert (found.verdict, found.exit_code) == ("unread", 3)
    assert any("limit" in item.why for item in found.not_verified)


def compressed_cubins(count: int) -> bytes:
    """Return so many containers of an image each, which inflates to more than a thousand bytes."""
    images = [fatbin.cubin(80, code=bytes([number]) * 2000) for number in range(count)]
    packed = [fatbin.entry(zstandard.compress(image), flags=0x8011, inflated=len(image)) for image in images]
    return b"".join(map(fatbin.fatbin, packed))


def test_a_limit_is_named_where_it_ended_the_reading_before_the_first_image(run: Ran) -> None:
    Path("one.fatbin").write_bytes(compressed_cubins(1))
    Path("many.fatbin").write_bytes(compressed_cubins(3))
    read = "0 B inflated and parsed; not judged: images: a limit ended the reading before the first"
    advice = "if you trust the file, use --max-inflated"
    size = len(fatbin.cubin(80, code=bytes(2000)))
    assert run("--max-inflated", "1000", "one.fatbin")[1][0] == f"unread: 1 file, 0 of 1 image, {read}; {advice}={size}"
    assert run("--max-inflated", str(size), "one.fatbin")[1][0].startswith("healthy: ")
    # The size of one image of several is not enough, so none is named.
    code, lines = run("--max-inflated", "1000", "many.fatbin")
    assert (code, lines[0]) == (3, f"unread: 1 file, 0 of 3 images, {read}; {advice}=SIZE")
    found = fatpack.doctor("many.fatbin", max_inflated=1000)
    assert found.unjudged.endswith("; if you trust the file, use max_inflated=SIZE")
    checked = fatpack.check("many.fatbin", verify=True, max_inflated=1000)
    assert NO_IMAGE_READ not in {item.subject for item in checked.violations}


@pytest.mark.parametrize(
    "stream",
    [b"no stream at all", zstandard.compress(bytes(range(64)))[:40] + bytes(40)],
    ids=["not compressed", "cut short"],
)
def test_damage_is_not_blamed_on_this_version(run: Ran, stream: bytes) -> None:
    Path("x.fatbin").write_bytes(fatbin.fatbin(fatbin.entry(stream, flags=0x8011, inflated=4000)))
    assert run("x.fatbin")[1][0] == "damaged: 1 file, 0 of 1 image, 0 B inflated and parsed"


def test_all_that_is_verified_is_listed(run: Ran) -> None:
    code, lines = run("--list")
    assert code == 0
    for check in CHECKS:
        assert f"{check.what}: {check.says}" in lines
    assert {name for check in CHECKS for name in check.codes if len(name) > 4} <= set(CODES)


def test_what_is_wrong_with_any_format_counts_in_a_row() -> None:
    rows = tuple(start for check in CHECKS for start in check.codes)
    others = [
        name for name in CODES if name.startswith(("FP12", "FP13", "FP14", "FP15", "FP16", "FP18", "FP19", "FP2"))
    ]
    assert [name for name in others if not name.startswith(rows)] == []


def test_a_kernel_without_its_stored_hash_counts_among_the_hashes(run: Ran) -> None:
    path = Path("gfx1100_48.kdb")
    path.write_bytes(amd_stores.kdb([amd_stores.row("a.o", "", amd_stores.hsaco("gfx1100"), digest="0" * 32)]))
    found = fatpack.doctor(path)
    assert {row.what: row.wrong for row in found.verified if row.wrong} == {"hashes": 1}


def test_a_symbol_table_that_lies_is_reported(run: Ran) -> None:
    member = (FIXTURES / "elf" / "clang-22-openmp-gfx90a.o").read_bytes()
    data = b"".join(map(bytes, build_archive([(b"a.o", make_view(member))])))
    Path("x.a").write_bytes(data)
    found = fatpack.doctor("x.a")
    counts = {row.what: (row.checked, row.wrong) for row in found.verified}
    assert found, [item.message for item in found.findings]
    assert counts["symbol tables"][0] > 0
    name = next(iter(archive_symbols(make_view(member)) or ()))
    Path("x.a").write_bytes(data.replace(b"\0" + name + b"\0", b"\0" + b"!" * len(name) + b"\0", 1))
    found = fatpack.doctor("x.a")
    assert [item.code for item in found.findings] == ["FP2107"]
    assert "a.o defines" in found.findings[0].message
    offset = data.index(b"a.o/")
    at = data.index(offset.to_bytes(4, "big"))
    Path("x.a").write_bytes(data[:at] + (offset + 2).to_bytes(4, "big") + data[at + 4 :])
    assert [item.code for item in fatpack.doctor("x.a").findings] == ["FP2107"]
