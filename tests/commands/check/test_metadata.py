"""Declared architectures are compared with the content of packages: each source right, wrong and hostile."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.builders import kpack, kpack_site
from tests.builders.packages import debian, tarred, zipped
from tests.builders.policy_files import library

import fatpack
from fatpack.commands.check import declarations
from fatpack.commands.check.declarations import MAX_CLAIMS, MAX_DECLARATION_SIZE, UnreadableDeclaration

HEAD = b"Metadata-Version: 2.4\nName: demo\nVersion: 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(name: str, *more: str) -> list[tuple[str, str]]:
    """Return code and subject of what a check of the metadata says, but for the declarations that it read."""
    made = fatpack.check([name, *more], metadata=True)
    assert made.rules == ("packages have what they declare",)
    return [(item.code, item.subject) for item in made.violations if item.code != "FP3319"]


def wheel(files: Mapping[str, bytes], *, name: str = "demo-1-py3-none-any.whl", code: str = "80 90 p90") -> str:
    info = {f"demo-1.dist-info/{key}": data for key, data in {"METADATA": HEAD, **files}.items()}
    Path(name).write_bytes(zipped({"demo/lib.so": library(code), **info}))
    return name


def of_variant(**features: object) -> bytes:
    return json.dumps({"variants": {"one": features}}).encode()


def test_the_declaration_that_was_compared_is_named_with_its_file() -> None:
    wheel({"variant.json": of_variant(nvidia={"sm_arch": ["80_real", "90_real"]})})
    made = fatpack.check("demo-1-py3-none-any.whl", metadata=True)
    notes = [(item.path, item.message) for item in made.violations if item.code == "FP3319"]
    path = "demo-1-py3-none-any.whl!demo-1.dist-info/variant.json"
    assert notes == [(path, "variant.json declares 80_real, 90_real")]
    assert made.verdict == "passed"


@pytest.mark.parametrize(
    ("nvidia", "code", "expected"),
    [
        ({"sm_arch": ["80_real", "90_real", "90_virtual"]}, "80 90 p90", []),
        ({"sm_arch": ["80", "90"]}, "80 90 p80 p90", []),
        ({"sm_arch": ["86_real"]}, "80", [("FP3312", "metadata")]),  # an sm_80 cubin serves 8.6
        ({"sm_arch": ["80_real", "120_real"]}, "80", [("FP3311", "sm_120")]),
        ({"sm_arch": ["80_real", "80_virtual"]}, "80", [("FP3311", "compute_80")]),
        ({"sm_arch": ["90a_real"]}, "90", [("FP3311", "sm_90a"), ("FP3312", "metadata")]),
        ({"sm_arch": ["80_real"]}, "80 90", [("FP3312", "metadata")]),
        ({"cuda_version_lower_bound": ["12.0"]}, "80 p80", []),
        ({"cuda_version_lower_bound": ["11.4"]}, "80 p80", [("FP3311", "CUDA 11.4")]),
    ],
)
def test_a_variant_declares_what_something_in_the_wheel_serves(
    nvidia: object, code: str, expected: list[tuple[str, str]]
) -> None:
    assert found(wheel({"variant.json": of_variant(nvidia=nvidia)}, code=code)) == expected


def test_a_variant_for_the_other_vendor() -> None:
    name = wheel({"variant.json": of_variant(amd={"gfx_arch": ["gfx942"]})})
    assert found(name) == [("FP3311", "gfx942"), ("FP3312", "metadata")]


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        ("12 :: 12.4", "80 p80", []),
        ("11 :: 11.8", "80 p80", [("FP3311", "CUDA 11.8")]),
        ("11 :: 11.8", "80", []),  # of cubins nobody knows
        ("12", "", [("FP3311", "CUDA 12")]),
    ],
)
def test_classifiers_and_the_cuda_that_ptx_needs(line: str, code: str, expected: list[tuple[str, str]]) -> None:
    text = f"Classifier: Environment :: GPU :: NVIDIA CUDA :: {line}\n\nClassifier: none of the fields\n"
    containers = [code] if code else []
    info = {"demo-1.dist-info/METADATA": HEAD + text.encode(), "demo/lib.so": library(*containers)}
    Path("demo.whl").write_bytes(zipped(info))
    assert found("demo.whl") == expected


EXTRAS = b"""Provides-Extra: device-gfx942
Provides-Extra: device-all
Requires-Dist: demo-device-gfx942 == 1; extra == "device-gfx942"
"""


def archive(arch: str) -> bytes:
    return kpack.archive([("lib/demo.so#0", arch, kpack_site.code(arch))])


@pytest.mark.parametrize(
    ("arch", "expected"), [("gfx942", []), ("gfx90a", [("FP3311", "gfx942"), ("FP3312", "metadata")])]
)
def test_extras_lead_to_wheels_beside(arch: str, expected: list[tuple[str, str]]) -> None:
    host = "demo-1-py3-none-any.whl"
    Path(host).write_bytes(zipped({"demo-1.dist-info/METADATA": HEAD + EXTRAS}))
    assert found(host) == [("FP3311", "gfx942")]
    beside = "demo_device_gfx942-1-py3-none-any.whl"
    Path(beside).write_bytes(
        zipped({"demo/.kpack/x.kpack": archive(arch), "demo_device_gfx942-1.dist-info/METADATA": HEAD})
    )
    assert found(host, beside) == expected


def package_of_conda(index: bytes, code: str) -> bytes:
    return tarred({"info/index.json": index, "lib/lib.so": library(code)})


@pytest.mark.parametrize(
    ("spec", "code", "expected"),
    [
        ("__cuda_arch >=8.0", "80 p80", []),
        ("__cuda_arch >=9.0,<13", "80 90", None),
        ("__cuda_arch >=8.6", "80", [("FP3312", "metadata")]),
        ("__cuda_arch >=7.5", "80", [("FP3311", "sm_75")]),
        ("__cuda_arch", "80", None),
        ("__cuda_arch_other >=7.5", "80", [("FP3313", "metadata")]),
    ],
)
def test_conda_declares_the_lowest_device(spec: str, code: str, expected: list[tuple[str, str]] | None) -> None:
    index = json.dumps({"name": "demo", "depends": ["libgcc", spec]}).encode()
    Path("demo.tar").write_bytes(package_of_conda(index, code))
    assert found("demo.tar") == ([("FP3301", "metadata")] if expected is None else expected)


def test_conda_of_the_newer_format() -> None:
    index = json.dumps({"depends": ["__cuda_arch >=7.5"]}).encode()
    parts = {"info-demo.tar": tarred({"info/index.json": index}), "pkg-demo.tar": tarred({"lib.so": library("80")})}
    Path("demo.conda").write_bytes(zipped(parts))
    assert found("demo.conda") == [("FP3311", "sm_75")]


def deb(field: bytes, code: Mapping[str, bytes]) -> bytes:
    text = b"Package: demo\nVersion: 1\n" + field
    return debian({"control.tar": tarred({"./control": text}), "data.tar": tarred(code)})


def test_debian_packages() -> None:
    code = {"usr/x.kpack": archive("gfx942")}
    for field, expected in (
        (b"X-ROCm-GPU-Architecture: gfx942\n", []),
        (b"X-ROCm-GPU-Architecture:\n gfx942\n gfx1100\n", [("FP3311", "gfx1100")]),
        (b"X-ROCm-GPU-Architecture: gfx1100\n", [("FP3311", "gfx1100"), ("FP3312", "metadata")]),
        (b"X-ROCm-GPU-Architecture: all\n", [("FP3301", "metadata")]),
        (b"", [("FP3313", "metadata")]),
    ):
        Path("demo.deb").write_bytes(deb(field, code))
        assert found("demo.deb") == expected, field


def test_what_declares_nothing_fails() -> None:
    Path("lib.so").write_bytes(library("80"))
    assert found("lib.so") == [("FP3313", "metadata")]
    name = wheel({})
    good = wheel({"variant.json": of_variant(nvidia={"sm_arch": ["80_real"]})}, name="good.whl", code="80")
    assert found(name) == [("FP3313", "metadata")]
    assert found(good, name) == [("FP3313", "metadata")]
    assert found(".") == [("FP3313", "metadata")] * 2  # the library, and the wheel; the other is declared


def test_a_variant_that_cannot_be_read_fails_closed() -> None:
    made = fatpack.check(wheel({"variant.json": b"no JSON"}), metadata=True)
    assert made.exit_code == 3
    assert [item.code for item in made.violations] == ["FP3301"]
    assert fatpack.check(wheel({"variant.json": b" " * (MAX_DECLARATION_SIZE + 1)}), metadata=True).exit_code == 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b'{"variants": []}',
        b'{"variants": {"a": {}, "b": {}}}',
        of_variant(nvidia=[]),
        of_variant(nvidia={"sm_arch": "90_real"}),
        of_variant(nvidia={"sm_arch": [90]}),
        of_variant(nvidia={"sm_arch": ["ninety"]}),
        of_variant(nvidia={"sm_arch": ["90_imaginary"]}),
        of_variant(nvidia={"cuda_version_lower_bound": ["twelve"]}),
        of_variant(amd={"gfx_arch": ["x" * 1000]}),
        of_variant(amd={"gfx_arch": [f"gfx{number}" for number in range(MAX_CLAIMS + 1)]}),
    ],
)
def test_hostile_variants(data: bytes) -> None:
    with pytest.raises(UnreadableDeclaration) as caught:
        declarations.variant_declaration(data)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'{"depends": "x"}',
        b'{"depends": [1]}',
        b'{"depends": ["__cuda_arch <9.0"]}',
        b'{"depends": ["__cuda_arch >=8.0|>=9.0"]}',
        b'{"constrains": ["__cuda_arch ' + b"9" * 1000 + b'"]}',
    ],
)
def test_hostile_indexes(data: bytes) -> None:
    with pytest.raises(UnreadableDeclaration):
        declarations.conda_declaration(data)


@pytest.mark.parametrize("data", [b"\xff", b" continued\n", b"no field\n", b"x" * 100_000])
def test_hostile_fields(data: bytes) -> None:
    for read in (
        declarations.extras_declaration,
        declarations.classifier_declaration,
        declarations.debian_declaration,
        declarations.required_distributions,
    ):
        with pytest.raises(UnreadableDeclaration):
            read(data)


def test_a_classifier_without_a_version_is_refused() -> None:
    with pytest.raises(UnreadableDeclaration, match="has no version"):
        declarations.classifier_declaration(b"Classifier: Environment :: GPU :: NVIDIA CUDA :: new\n")


def test_metadata_that_is_damaged_in_its_package() -> None:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as tar:
        info = tarfile.TarInfo("info/index.json")
        info.size = 1000
        tar.addfile(info, io.BytesIO(bytes(1000)))
    Path("cut.tar").write_bytes(into.getvalue()[:600])
    assert fatpack.check("cut.tar", metadata=True).exit_code == 3
