"""The corpus tool: its list, its fetcher (without a network), its digest and its comparers."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests import reference
from tests.builders import sycl
from tools.corpus import __main__ as program
from tools.corpus.catalogue import CATALOGUE, Artefact, Catalogue, CatalogueError, SmallFile, load
from tools.corpus.compare import COMPARERS, RAW_MAGICS, REMARKS, compare
from tools.corpus.digest import payload_digest, payload_line
from tools.corpus.fetch import Fetcher, FetchError, debian_mirror, file_sha256

import fatpack
from fatpack import formats
from fatpack.io.source import BytesSource, View

FIXTURES = Path(__file__).parents[1] / "fixtures"
OBJECT = FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"
CONTAINER = FIXTURES / "offload_binary" / "llvm-22-four.bin"

#: Output of GNU readelf and llvm-objdump for the fixture.
EXPECTED: dict[str, Any] = {
    "file_type": "elf64 type=1 mach=62",
    "sections": [
        {"name": "llvm_offload_entries", "offset": 408, "size": 56},
        {"name": ".llvm.offloading", "offset": 464, "size": 6168, "containers": 1},
    ],
    "offload_binary": {
        "binaries": 1,
        "by_version": {"1": 1},
        "entries": 1,
        "entries_by": {"kind=1 image=2 amdgcn-amd-amdhsa gfx90a": 1},
        "string_keys": {"arch,triple": 1},
    },
    "raw_magic": {"offload_binary": 1},
}


def _with(path: str, value: object) -> dict[str, Any]:
    """Return EXPECTED with one value exchanged; ``path`` is keys and indices with slashes between."""
    changed = json.loads(json.dumps(EXPECTED))
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = changed
    for part in way:
        place = place[part]
    place[last] = value
    return changed


def _artefact(member: str, content: bytes, **changes: Any) -> Artefact:
    values: dict[str, Any] = {
        "key": "sample",
        "what": "a sample",
        "source": "pip",
        "package": "sample",
        "version": "1.0",
        "member": member,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
        "expected": {},
        "wheel": "sample-1.0-py3-none-any.whl",
        "platforms": ("any",),
        "python_version": "3.12",
    }
    return Artefact(**{**values, **changes})


def _download(cache: Path, artefact: Artefact, members: dict[str, bytes]) -> Path:
    """Put a wheel into the fetcher's folder of downloads."""
    path = cache / ".download" / artefact.wheel
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in members.items():
            wheel.writestr(name, content)
    return path


# The list


def test_the_list_is_sound_and_names_no_host() -> None:
    catalogue = load()
    assert len(catalogue.artefacts) > 50
    assert len(catalogue.small) > 30
    assert "://" not in CATALOGUE.read_text(encoding="utf-8")


def test_every_part_of_the_expectations_is_compared_a_remark_or_known_to_wait() -> None:
    # A part that is not listed here is misspelled.
    waiting = {"cuda"}
    catalogue = load()
    parts = {part for item in (*catalogue.artefacts.values(), *catalogue.small.values()) for part in item.expected}
    assert parts - set(COMPARERS) - REMARKS <= waiting


def test_numbers_that_vary_exist_and_say_why() -> None:
    for item in load().small.values():
        for pattern, reason in item.varies.items():
            assert pattern.partition("/")[0] in item.expected, item.key
            assert len(reason.split()) > 3


def test_selecting_without_keys_takes_everything_up_to_a_size() -> None:
    catalogue = load()
    artefacts, small = catalogue.select([], max_mb=1)
    assert 0 < len(artefacts) < len(catalogue.artefacts)
    assert max(item.size for item in artefacts) <= 1_000_000
    assert len(small) == len(catalogue.small)


def test_selecting_by_key_takes_artefacts_and_built_files() -> None:
    catalogue = load()
    artefacts, small = catalogue.select(["isr252-asan-new", "23_three.a"])
    assert [item.key for item in artefacts] == ["isr252-asan-new"]
    assert [item.key for item in small] == ["23_three.a"]
    artefacts, small = catalogue.select(["small"])
    assert artefacts == []
    assert len(small) == len(catalogue.small)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(CatalogueError, match="unknown key nothing"):
        load().select(["nothing"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.update(format=2), "format 2, 1 is known"),
        (lambda text: text["artefacts"][0].update(source="ftp"), "source 'ftp', pip and deb are known"),
        (lambda text: text["artefacts"][0].pop("wheel"), "needs wheel"),
        (lambda text: text["artefacts"][0].pop("sha256"), "sha256"),
        (lambda text: text["artefacts"][0].update(post="gunzip"), "only 'zstd -d'"),
        (lambda text: text["artefacts"].append(text["artefacts"][0]), "is listed twice"),
    ],
    ids=["format", "source", "wheel", "sha256", "post", "twice"],
)
def test_a_wrong_list_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    text = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    change(text)
    path = tmp_path / "list.json"
    path.write_text(json.dumps(text))
    with pytest.raises(CatalogueError, match=message):
        load(path)


def test_listing_prints_one_line_per_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--list"]) == 0
    catalogue = load()
    assert len(capsys.readouterr().out.splitlines()) == len(catalogue.artefacts) + len(catalogue.small)


# The fetcher


def test_a_member_of_a_downloaded_wheel_is_taken_out(tmp_path: Path) -> None:
    artefact = _artefact("lib/x.so", b"content")
    _download(tmp_path, artefact, {"lib/x.so": b"content", "lib/y.so": b"other"})
    path = Fetcher(tmp_path).fetch(artefact)
    assert path == tmp_path / "sample" / "x.so"
    assert path.read_bytes() == b"content"


def test_an_artefact_in_the_cache_needs_no_download(tmp_path: Path) -> None:
    artefact = _artefact("lib/x.so", b"content")
    path = tmp_path / "sample" / "x.so"
    path.parent.mkdir()
    path.write_bytes(b"content")
    assert Fetcher(tmp_path).fetch(artefact) == path


def test_a_member_with_another_sha256_is_refused_and_not_kept(tmp_path: Path) -> None:
    artefact = _artefact("lib/x.so", b"content")
    _download(tmp_path, artefact, {"lib/x.so": b"another"})
    with pytest.raises(FetchError, match=r"lib/x\.so: sha256 is .*, expected"):
        Fetcher(tmp_path).fetch(artefact)
    assert list((tmp_path / "sample").iterdir()) == []


def test_a_wheel_with_another_sha256_is_refused_and_removed(tmp_path: Path) -> None:
    artefact = _artefact("lib/x.so", b"content", package_sha256="0" * 64)
    wheel = _download(tmp_path, artefact, {"lib/x.so": b"content"})
    with pytest.raises(FetchError, match=r"sample-1\.0-py3-none-any\.whl: sha256"):
        Fetcher(tmp_path).fetch(artefact)
    assert not wheel.exists()


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    artefact = _artefact("lib/x.so", b"content")
    _download(tmp_path, artefact, {"lib/y.so": b"content"})
    with pytest.raises(FetchError, match=r"has no lib/x\.so"):
        Fetcher(tmp_path).fetch(artefact)


def test_a_zstd_member_is_unpacked_and_checked_again(tmp_path: Path) -> None:
    import zstandard

    packed = zstandard.compress(b"content")
    right = hashlib.sha256(b"content").hexdigest()
    artefact = _artefact("x.fatbin.zst", packed, post="zstd -d", post_sha256=right)
    _download(tmp_path, artefact, {"x.fatbin.zst": packed})
    path = Fetcher(tmp_path).fetch(artefact)
    assert path.name == "x.fatbin"
    assert path.read_bytes() == b"content"
    path.unlink()
    with pytest.raises(FetchError, match="unpacked: sha256"):
        Fetcher(tmp_path).fetch(_artefact("x.fatbin.zst", packed, post="zstd -d", post_sha256="0" * 64))


def test_a_released_wheel_is_gone_and_its_artefact_stays(tmp_path: Path) -> None:
    artefact = _artefact("lib/x.so", b"content")
    wheel = _download(tmp_path, artefact, {"lib/x.so": b"content"})
    fetcher = Fetcher(tmp_path)
    path = fetcher.fetch(artefact)
    fetcher.release(artefact)
    assert not wheel.exists()
    assert file_sha256(path) == artefact.sha256


@pytest.mark.reference
def test_a_member_of_a_debian_package_is_taken_out(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: sample\nVersion: 1:1.0\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: sample\n"
    )
    (tree / "usr" / "lib").mkdir(parents=True)
    (tree / "usr" / "lib" / "x.a").write_bytes(b"content")
    downloads = tmp_path / "cache" / ".download"
    downloads.mkdir(parents=True)
    reference.run("dpkg-deb", "--build", "--root-owner-group", tree, downloads / "sample_1%3a1.0_all.deb")
    artefact = _artefact("usr/lib/x.a", b"content", source="deb", version="1:1.0", wheel="")
    assert Fetcher(tmp_path / "cache").fetch(artefact).read_bytes() == b"content"
    with pytest.raises(FetchError, match=r"has no usr/lib/y\.a"):
        Fetcher(tmp_path / "cache").fetch(_artefact("usr/lib/y.a", b"", source="deb", version="1:1.0", wheel=""))


@pytest.mark.parametrize(
    ("text", "mirror", "options"),
    [
        (
            "Types: deb\nURIs: http://m.example/node\nSuites: x\n\n"
            "Types: deb\n# note\nURIs: http://m.example/debian\nSuites: y\nSigned-By: /keys/debian.gpg\n",
            "http://m.example/debian",
            "[signed-by=/keys/debian.gpg] ",
        ),
        ("deb http://m.example/debian/ bookworm main\n", "http://m.example/debian/", ""),
        (
            "deb [arch=amd64 signed-by=/k.gpg] http://m.example/debian bookworm main",
            "http://m.example/debian",
            "[signed-by=/k.gpg] ",
        ),
    ],
    ids=["stanzas", "line", "line with options"],
)
def test_the_mirror_is_read_from_both_notations_of_apt(text: str, mirror: str, options: str) -> None:
    assert debian_mirror(["deb http://m.example/debian-security bookworm-security main\n", text]) == (mirror, options)


def test_a_machine_without_a_debian_mirror_is_reported() -> None:
    with pytest.raises(FetchError, match="no Debian mirror"):
        debian_mirror(["deb http://m.example/ubuntu noble main\n"])


# The digest


def test_a_payload_line_is_label_size_and_sha256() -> None:
    line = payload_line("4 2 triple arch", BytesSource(b"abc").view())
    assert line == "4 2 triple arch 3 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_digest_is_the_sha256_of_the_lines_sorted_as_strings() -> None:
    # As strings "10" comes before "9".
    assert payload_digest(["a 9 f", "a 10 f"]) == hashlib.sha256(b"a 10 f\na 9 f").hexdigest()
    assert payload_digest(["a 10 f", "a 9 f"]) == payload_digest(["a 9 f", "a 10 f"])
    assert payload_digest(["a 9 f", "a 9 f"]) != payload_digest(["a 9 f"])


def test_the_digest_of_no_image_is_that_of_no_bytes() -> None:
    assert payload_digest([]) == hashlib.sha256(b"").hexdigest()


# The comparers


def test_right_numbers_agree_and_are_counted() -> None:
    outcome = compare(OBJECT, EXPECTED)
    assert outcome.differences == []
    assert outcome.unanswered == {}
    # file type; per section count, offset and size, and of the one of device code that it is located and its
    # containers; five numbers of the container; a count of magics per format that has a room
    assert outcome.compared == 1 + 3 + 5 + 5 + len(set(RAW_MAGICS.values()) & set(formats.MODULES))


@pytest.mark.parametrize(
    ("path", "value", "difference"),
    [
        ("file_type", "elf64 type=3 mach=62", "file_type: expected elf64 type=3 mach=62, found elf64 type=1 mach=62"),
        ("file_type", "ar", "file_type: expected archive, found elf"),
        ("file_type", "bundle", "file_type: expected raw, found elf"),
        ("sections/0/offset", 400, "sections/llvm_offload_entries/offset: expected 400, found 408"),
        ("sections/1/size", 6167, "sections/.llvm.offloading/size: expected 6167, found 6168"),
        ("sections/1/containers", 2, "sections/.llvm.offloading/containers: expected 2, found 1"),
        ("sections/1/name", ".other", "located/.llvm.offloading: expected 0, found 1"),
        ("sections/0/containers", 1, "sections/llvm_offload_entries/located: expected 1, found 0"),
        ("offload_binary/binaries", 2, "offload_binary/binaries: expected 2, found 1"),
        ("offload_binary/by_version", {"2": 1}, "offload_binary/by_version/2: expected 1, found 0"),
        ("offload_binary/entries_by", {}, "expected 0, found 1"),
        ("offload_binary/string_keys", {"triple,arch": 1}, "offload_binary/string_keys/triple,arch: expected 1"),
        ("offload_binary/payload_digest", "0", "offload_binary/payload_digest: expected 0"),
        ("raw_magic", {}, "raw_magic/llvm-offload-binary: expected 0, found 1"),
    ],
)
def test_a_wrong_number_is_a_difference_with_its_path(path: str, value: object, difference: str) -> None:
    outcome = compare(OBJECT, _with(path, value))
    assert any(difference in line for line in outcome.differences), outcome.differences


def test_the_digest_covers_the_images_of_all_containers() -> None:
    data = CONTAINER.read_bytes()
    lines = []
    with fatpack.open(CONTAINER) as file:
        for found in file.images():
            record: Any = found.as_stored.record
            target, span = found.target, found.span
            digest = hashlib.sha256(data[span.start : span.end]).hexdigest()
            label = f"{record.offload_kind} {record.image_kind} {target.triple} {target.arch}"
            lines.append(f"{label} {span.size} {digest}")
    assert len(lines) == 4
    right = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    assert compare(CONTAINER, {"offload_binary": {"payload_digest": right}}).differences == []
    wrong = hashlib.sha256("\n".join(sorted(lines)[:3]).encode()).hexdigest()
    assert len(compare(CONTAINER, {"offload_binary": {"payload_digest": wrong}}).differences) == 1


@pytest.mark.parametrize(
    ("name", "form", "ccob"),
    [("llvm-22-hip.bundle", "plain", 0), ("llvm-22-v3-zstd.bundle", "ccob-v3-zstd", 1)],
)
def test_bundles_are_counted_by_form_and_id(name: str, form: str, ccob: int) -> None:
    path = FIXTURES / "clang_bundle" / name
    ids: dict[str, int] = {}
    with fatpack.open(path) as file:
        for image in file.images():
            ids[image.attrs["id"]] = image.size
    expected = {
        "bundles": 1,
        "by_format": {form: 1},
        "entries": len(ids),
        "entries_by_id": dict.fromkeys(ids, 1),
        "bytes_by_id": ids,
        "empty_entries": list(ids.values()).count(0),
    }
    outcome = compare(path, {"bundles": expected})
    assert outcome.differences == []
    assert len(ids) > 1
    (difference,) = compare(path, {"bundles": {"ccob": {"n": ccob + 1}}}).differences[:1]
    assert difference == f"bundles/ccob/n: expected {ccob + 1}, found {ccob}"
    assert compare(path, {"bundles": {**expected, "by_format": {"other": 1}}}).differences == [
        f"bundles/by_format/{first}: expected {int(first == 'other')}, found {int(first != 'other')}"
        for first in sorted([form, "other"])
    ]


def view(data: bytes) -> View:
    return BytesSource(data).view()


def test_sections_of_fat_objects_are_counted_by_name() -> None:
    path = FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o"
    with fatpack.open(path) as file:
        images = list(file.images())
        data = {f"__CLANG_OFFLOAD_BUNDLE__{image.attrs['id']}": image.data.tobytes() for image in images}
    expected = {
        "sections": 3,
        "by_name": dict.fromkeys(data, 1),
        "bytes_by_name": {name: len(content) for name, content in data.items()},
        "payload_digest": payload_digest(payload_line(name, view(content)) for name, content in data.items()),
    }
    assert compare(path, {"clang_bundle_sections": expected}).differences == []
    assert compare(path, {"clang_bundle_sections": {**expected, "sections": 4}}).differences == [
        "clang_bundle_sections/sections: expected 4, found 3"
    ]
    assert compare(path, {"raw_magic": {}, "bundles": {"bundles": 0}}).differences == []


def test_images_of_sycl_programs_are_counted_by_content(tmp_path: Path) -> None:
    path = tmp_path / "program.so"
    plain, large = sycl.spirv(20), sycl.spirv(5000)
    packed = sycl.packed(large)
    path.write_bytes(sycl.program([sycl.Stored(plain), sycl.Stored(packed, len(large))]))
    expected = {
        "images": 2,
        "by_content": {"spirv": 1, "zstd:spirv": 1},
        "stored_bytes": len(plain) + len(packed),
        "raw_bytes": len(plain) + len(large),
        "payload_digest": payload_digest(payload_line("spirv", view(data)) for data in (plain, large)),
    }
    sections = {"sections": 1, "by_name": {sycl.SPIR64: 1}}
    assert compare(path, {"sycl_images": expected, "clang_bundle_sections": sections}).differences == []
    assert compare(path, {"sycl_images": {"raw_bytes": 1}}).differences == [
        f"sycl_images/raw_bytes: expected 1, found {len(plain) + len(large)}"
    ]


def test_sections_of_archives_are_added_up(tmp_path: Path) -> None:
    content = OBJECT.read_bytes()
    path = tmp_path / "two.a"
    members = [f"{name:16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode() for name in ("a.o/", "b.o/")]
    path.write_bytes(b"!<arch>\n" + b"".join(member + content for member in members))
    expected = {
        "file_type": "ar",
        "archive_members": 2,
        "sections": [{"name": ".llvm.offloading", "count": 2, "bytes": 2 * 6168}],
        "offload_binary": {"binaries": 2},
    }
    assert compare(path, expected).differences == []
    expected["archive_members"] = 3
    assert compare(path, expected).differences == ["archive_members: expected 3, found 2"]


def test_what_no_room_answers_is_counted_by_name() -> None:
    outcome = compare(OBJECT, {**EXPECTED, "spoons": {"tea": 3}, "offload_binary": {"forks": 1}, "note": "words"})
    assert outcome.unanswered == {"spoons": 1, "offload_binary/forks": 1}
    assert outcome.differences == []


def test_a_number_that_varies_is_reported_but_no_difference() -> None:
    outcome = compare(OBJECT, _with("sections/1/size", 1), {"sections/*/size": "because the test says so"})
    assert outcome.differences == []
    assert outcome.varied == ["sections/.llvm.offloading/size"]


def test_damage_that_fatpack_reports_is_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "cut.bin"
    path.write_bytes(CONTAINER.read_bytes()[:-20])
    assert any(line.startswith("finding FP1001") for line in compare(path, {}).differences)


def test_a_file_that_cannot_be_read_is_a_difference(tmp_path: Path) -> None:
    (line,) = compare(tmp_path / "nothing", EXPECTED).differences
    assert line.startswith("FileNotFoundError")


# The command


def _run(monkeypatch: pytest.MonkeyPatch, cache: Path, expected: dict[str, Any], *, present: bool = True) -> int:
    artefact = _artefact("lib/x.o", OBJECT.read_bytes(), expected=expected)
    if present:
        _download(cache, artefact, {"lib/x.o": OBJECT.read_bytes()})
    else:
        _download(cache, artefact, {"lib/x.o": b"something else"})
    monkeypatch.setattr(program, "load", lambda: Catalogue({"sample": artefact}, {}))
    return program.main(["--cache", str(cache)])


def test_agreement_exits_with_0_and_removes_the_wheel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, {**EXPECTED, "cups": 1}) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:2] == ["ok", "sample"]
    assert printed[0].endswith("unanswered: cups")
    assert printed[1] == "1 files agree, 0 differ, 0 missing"
    assert printed[3] == "not answered yet, by part and number of files: cups 1"
    assert list((tmp_path / ".download").iterdir()) == []


def test_a_difference_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _with("offload_binary/entries", 7)) == 1
    printed = capsys.readouterr().out
    assert "DIFFERS sample" in printed
    assert "offload_binary/entries: expected 7, found 1" in printed


def test_an_artefact_that_cannot_be_fetched_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, EXPECTED, present=False) == 1
    assert "missing: sample" in capsys.readouterr().out


def test_a_varying_number_of_a_built_file_is_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = SmallFile(OBJECT.name, _with("sections/1/size", 1), {"sections/*/size": "the test says so"})
    monkeypatch.setattr(program, "load", lambda: Catalogue({}, {small.key: small}))
    monkeypatch.setattr(program, "build", lambda cache, names: OBJECT.parent)
    assert program.main(["--cache", str(tmp_path)]) == 0
    assert "1 vary with the build" in capsys.readouterr().out
