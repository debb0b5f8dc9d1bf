"""Declared architectures are compared with the content of packages: each source right, wrong and hostile."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.builders import kpack, kpack_site, releases
from tests.builders.fat_conda import fat_package
from tests.builders.packages import debian, tarred, zipped
from tests.builders.policy_files import library
from tests.builders.variants import SHARED, document

import fatpack
from fatpack.commands.check import declarations
from fatpack.commands.check.declarations import MAX_CLAIMS, MAX_DECLARATION_SIZE, UnreadableDeclaration

HEAD = b"Metadata-Version: 2.4\nName: demo\nVersion: 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(name: str, *more: str) -> list[tuple[str, str]]:
    """Return code and subject of what is said of claims: not the declarations, and not what variants are taken for."""
    made = fatpack.check([name, *more], metadata=True)
    assert made.rules == ("packages have what they declare",)
    return [(item.code, item.subject) for item in made.violations if not item.code.startswith(("FP3319", "FP333"))]


def wheel(files: Mapping[str, bytes], *, name: str = "", code: str = "80 90 p90") -> str:
    name = name or f"demo-1-py3-none-any{'-one' if 'variant.json' in files else ''}.whl"
    info = {f"demo-1.dist-info/{key}": data for key, data in {"METADATA": HEAD, **files}.items()}
    Path(name).write_bytes(zipped({"demo/lib.so": library(code), **info}))
    return name


def of_variant(**features: object) -> bytes:
    providers = {name: {"requires": [f"{name}-variant-provider"]} for name in features}
    shared = {**SHARED, "default-priorities": {"namespace": list(features)}, "providers": providers}
    return document({"one": features}, shared)  # type: ignore[dict-item]  # some are wrong on purpose


def test_the_declaration_that_was_compared_is_named_with_its_file() -> None:
    wheel({"variant.json": of_variant(nvidia={"sm_arch": ["80_real", "90_real"]})})
    made = fatpack.check("demo-1-py3-none-any-one.whl", metadata=True)
    notes = [(item.path, item.message) for item in made.violations if item.code == "FP3319"]
    path = "demo-1-py3-none-any-one.whl!demo-1.dist-info/variant.json"
    assert notes == [(path, "variant.json declares 80_real, 90_real")]
    assert made.verdict == "passed"


@pytest.mark.parametrize(
    ("nvidia", "code", "expected"),
    [
        ({"sm_arch": ["80_real", "90_real", "90_virtual"]}, "80 90 p90", []),
        ({"sm_arch": ["80", "90"]}, "80 90 p80 p90", []),
        ({"sm_arch": ["86_real"]}, "80", [("FP3312", "metadata")]),  # an sm_80 cubin serves 8.6
        ({"sm_arch": ["80_real"]}, "80 86", []),  # 80_real is for 8.6 too
        ({"sm_arch": ["80_real", "120_real"]}, "80", [("FP3311", "sm_120")]),
        ({"sm_arch": ["80_real", "80_virtual"]}, "80", [("FP3311", "compute_80")]),
        ({"sm_arch": ["90a_real"]}, "90", [("FP3311", "sm_90a"), ("FP3312", "metadata")]),
        ({"sm_arch": ["80_real"]}, "80 90", [("FP3312", "metadata")]),
        ({"cuda_version_lower_bound": ["12.0"]}, "80 p80", []),
        ({"cuda_version_lower_bound": ["11.4"]}, "80 p80", []),  # drivers: test_variants.py
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


def package_of_conda(specs: str, code: str, *, subdir: str = "linux-64") -> str:
    index = {"name": "demo", "subdir": subdir, "depends": ["libgcc", *filter(None, specs.split("; "))]}
    files = {"info/index.json": json.dumps(index).encode()}
    if code:
        files["lib/lib.so"] = library(*code.split("; "))
    Path("demo.tar").write_bytes(tarred(files))
    return "demo.tar"


#: the note that no document says if 8.8 runs cubins for 8.0, nor if 10.7 runs sm_100f
UNKNOWN = ("FP3321", "metadata")

#: dependencies, code, expected violations
CONDA = [
    # the cases of the specification: what conda-forge builds today passes
    ("cuda-arch >=7.5", "75 80 86 89 90 p90", [UNKNOWN]),
    ("cuda-arch >=7.5", "75 90", [("FP3311", "sm_80"), ("FP3311", "sm_100")]),
    ("cuda-arch >=7.5", "75 90 p75", [("FP3320", "metadata")]),  # its PTX fills the gap
    ("cuda-arch >=7.5", "75 90 p90", [("FP3311", "sm_80")]),
    ("__cuda_arch >=8.0", "80", [("FP3311", "sm_90"), UNKNOWN]),
    ("__cuda_arch >=8.0", "80 p80", [UNKNOWN]),
    # a bound that holds, and one that does not: a 9.0 gets the metapackage for 8.9
    ("cuda-arch >=8.0; __cuda_arch <9.0", "80", [UNKNOWN]),
    ("__cuda_arch >=8.0,<9.0", "80", [UNKNOWN]),
    ("cuda-arch >=8.0,<9.0", "80", [("FP3311", "sm_90"), UNKNOWN]),
    ("__cuda_arch 9.0.*", "90", []),
    ("__cuda_arch >=8.0,<9|>=12", "80 120 p120", [UNKNOWN]),
    # code for others
    ("__cuda_arch >=9.0,<13", "80 90", [("FP3311", "sm_100"), ("FP3312", "metadata")]),
    ("__cuda_arch >=8.6", "80 p80", [UNKNOWN, ("FP3312", "metadata")]),
    ("__cuda_arch >=8.0,<9.0", "80 90", [UNKNOWN, ("FP3312", "metadata")]),
    ("__cuda_arch >=7.5", "80 p80", [("FP3311", "sm_75"), UNKNOWN]),
    # the advice of CEP 46
    ("cuda-arch >=8.0", "80 90 p80", [UNKNOWN, ("FP3320", "metadata")]),
    ("__cuda_arch >=9.0,<10.0", "90a", [("FP3320", "metadata")]),
    ("__cuda_arch >=9.0,<10.0", "90 90a", []),
    ("cuda-arch >=9.0", "90a p90a", [("FP3311", "sm_100"), ("FP3320", "metadata")]),
    ("cuda-arch >=10.0", "100f 120f", [("FP3311", "later devices"), UNKNOWN, ("FP3320", "metadata")]),
    # of two containers one has nothing for 8.x
    ("cuda-arch >=8.0", "80 p80; 90 p90", [UNKNOWN, ("FP3322", "metadata")]),
    # no code at all, and specifications that are none or another package's
    ("cuda-arch >=8.0", "", [("FP3311", "sm_80")]),
    ("__cuda_arch", "80", [("FP3301", "metadata")]),
    ("cuda-arch <9.0", "80", [("FP3301", "metadata")]),
    ("cuda-arch >=9.0; __cuda_arch <8.0", "80", [("FP3301", "metadata")]),
    ("__cuda_arch_other >=7.5", "80", [("FP3313", "metadata")]),
    ("cuda-archs >=7.5", "80", [("FP3313", "metadata")]),
]


@pytest.mark.parametrize(("specs", "code", "expected"), CONDA)
def test_conda_installs_on_devices_that_are_served(specs: str, code: str, expected: list[tuple[str, str]]) -> None:
    assert found(package_of_conda(specs, code)) == expected


def messages(name: str, code: str) -> list[str]:
    return [item.message for item in fatpack.check(name, metadata=True).violations if item.code == code]


def test_a_gap_is_named_with_its_neighbours() -> None:
    name = package_of_conda("cuda-arch >=7.5", "75 90 p90")
    (said,) = messages(name, "FP3311")
    start = "index.json declares cuda-arch >=7.5: nothing in it runs on 8.0, 8.6, 8.8, 8.9, a gap between 7.5 and 9.0: "
    assert said.startswith(start)
    (broken,) = [item for item in fatpack.check(name, metadata=True).violations if item.is_broken]
    assert broken.hint == "build for 8.0, or put PTX for 7.5 into it"


def test_later_devices_are_named_with_the_bound_that_keeps_them_away() -> None:
    name = package_of_conda("cuda-arch >=8.0,<9.0", "80")
    (broken,) = [item for item in fatpack.check(name, metadata=True).violations if item.is_broken]
    assert "nothing in it runs on 9.0, 10.0, 10.3, 10.7, 12.0, 12.1 and on every later device: " in broken.message
    advice = "put PTX into it, or depend on __cuda_arch <9.0 besides"
    assert broken.hint == (
        f"cuda-arch >=8.0,<9.0 keeps none away, for newer devices get an older metapackage: {advice}"
    )
    assert found(package_of_conda("cuda-arch >=8.0,<9.0; __cuda_arch <9.0", "80")) == [UNKNOWN]


def test_jetsons_have_packages_for_arm_processors_alone() -> None:
    assert found(package_of_conda("__cuda_arch >=10.0,<11.1", "100", subdir="linux-64")) == []
    name = package_of_conda("__cuda_arch >=10.0,<11.1", "100", subdir="linux-aarch64")
    assert found(name) == [("FP3311", "sm_110")]


def test_advice_warns_and_does_not_fail() -> None:
    made = fatpack.check(package_of_conda("cuda-arch >=8.0", "80 90 p80"), metadata=True)
    assert [item.severity for item in made.violations if item.code == "FP3320"] == ["warning"]
    assert made.verdict == "passed"
    assert made.exit_code == 0


def test_conda_of_the_newer_format() -> None:
    index = json.dumps({"depends": ["__cuda_arch >=7.5,<9.0"], "subdir": "linux-64"}).encode()
    parts = {"info-demo.tar": tarred({"info/index.json": index}), "pkg-demo.tar": tarred({"lib.so": library("80")})}
    Path("demo.conda").write_bytes(zipped(parts))
    assert found("demo.conda") == [("FP3311", "sm_75"), UNKNOWN]


def test_the_file_name_of_conda_is_what_the_package_states(tmp_path: Path) -> None:
    """Solvers read ``index.json``: a package under another one's name installs something else than it seems."""
    path = fat_package(tmp_path, "80 90 p90", suffix=".tar.bz2")
    assert messages(str(path), "FP3338") == []
    other = path.rename(tmp_path / "demo-1.5-sm90_h12_0.tar.bz2")
    says = "info/index.json states demo-1.5-h12_0, and the file name is demo-1.5-sm90_h12_0.tar.bz2"
    assert messages(str(other), "FP3338") == [says]
    made = fatpack.check(str(other), metadata=True)
    assert made.exit_code == 1
    newer = fat_package(tmp_path, "80 90 p90").rename(tmp_path / "demo-1.6-h12_0.conda")
    assert len(messages(str(newer), "FP3338")) == 1


@pytest.mark.parametrize(
    ("depends", "code", "expected"),
    [
        # PTX 8.7 is of CUDA 12.8; 9.0 has a cubin, 12.0 is found by drivers of 12.8 and newer alone
        (["cuda-arch >=9.0", "__cuda >=12.0"], "90 p90@8.7", []),
        (["cuda-arch >=8.0", "__cuda >=12.0"], "90 p80@8.7", ["8.0, 8.6, 8.9 needs a driver of CUDA 12.8"]),
        (["cuda-arch >=8.0", "cuda-version >=12.9,<13"], "90 p80@8.7", ["8.0, 8.6, 8.9 needs a driver of CUDA 12.8"]),
        (["cuda-arch >=8.0", "__cuda >=12.8"], "90 p80@8.7", []),
        # it asks for no driver: none is compared
        (["cuda-arch >=8.0", "__cuda"], "90 p80@8.7", []),
        (["cuda-arch >=9.0", "__cuda >=12.0"], "90 p90 zstd", ["9.0 needs a driver of CUDA 12.4"]),
    ],
)
def test_drivers_that_conda_lets_in_are_new_enough(
    depends: list[str], code: str, expected: list[str], tmp_path: Path
) -> None:
    path = fat_package(tmp_path, depends=depends, data=releases.library(code))
    found = messages(str(path), "FP3337")
    assert len(found) == len(expected), found
    assert all(words in said for words, said in zip(expected, found, strict=True)), found


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
    assert [item.code for item in made.violations] == ["FP3301", "FP3336"]
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
        b'{"depends": ["__cuda_arch >=8.0|^9$"]}',
        b'{"depends": ["cuda-arch ((((((((((((((((((((8.0"]}',
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
