"""Wheels with variants: what installers believe of them, against their code, against each other and their index."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builders import fatbin, linked_elf, variants, wheels
from tests.builders.policy_files import container, cubin, library
from tests.builders.variants import SHARED, document, file_name

import fatpack
from fatpack.errors import UsageError
from fatpack.main import main

Properties = Mapping[str, Mapping[str, Sequence[str]]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def nvidia(*archs: str, **bounds: Sequence[str]) -> Properties:
    return {"nvidia": {"sm_arch": archs, **bounds}}


def write(label: str | None, code: str | bytes, properties: Properties | None = None, **changes: Any) -> str:
    """Write a wheel of version 1.0 with one library; ``platform`` and ``said`` (its variant.json) can be changed."""
    data = library(code) if isinstance(code, str) else code
    files = {"demo/lib.so": data}
    told = {} if label is None else {changes.get("key", label): properties or {}}
    if label is not None:
        files["demo-1.0.dist-info/variant.json"] = changes.get("said") or document(told, changes.get("shared", SHARED))
    name = file_name("demo", label).replace("any", changes.get("platform", "manylinux_2_28_x86_64"))
    made = wheels.files_of(files, info="demo-1.0.dist-info", metadata=b"Metadata-Version: 2.1\nName: demo\n")
    for path in changes.get("without", ()):
        record = made["demo-1.0.dist-info/RECORD"].decode().splitlines(keepends=True)
        made["demo-1.0.dist-info/RECORD"] = "".join(line for line in record if path not in line).encode()
    Path(name).write_bytes(wheels.packed(made))
    return name


def found(*names: str, codes: str = "FP333") -> list[tuple[str, str, str]]:
    """Return code, subject and message of what is said of variants."""
    made = fatpack.check(list(names), metadata=True)
    shown = (codes, "FP332") if codes == "FP333" else (codes,)
    unasked = "FP3336" if codes != "FP3336" else ""
    told = [each for each in made.violations if each.code.startswith(shown) and each.code != unasked]
    return [(each.code, each.subject, each.message) for each in told]


def test_a_right_variant_passes() -> None:
    name = write("sm90", "90", nvidia("90_real", cuda_version_lower_bound=["12.0"]))
    made = fatpack.check(name, metadata=True)
    assert made.verdict == "passed"
    assert [each.code for each in made.violations if each.code.startswith("FP333")] == ["FP3336"]


def test_the_index_file_stands_for_the_wheels_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Alone it has no code: it is judged with its wheels, by check, doctor and explain; inspect says what it is."""
    write("sm100", "100a", nvidia("100_real"))
    index = Path("demo-1.0-variants.json")
    index.write_bytes(document({"sm100": nvidia("100_real")}, SHARED))
    assert [code for code, *_ in found(str(index))] == ["FP3332"]
    assert fatpack.doctor(str(index)).images == 1
    assert main(["inspect", str(index)]) == 0
    assert "an index file of variants, whose wheels have the code" in capsys.readouterr().out
    folder = Path("alone")
    folder.mkdir()
    moved = index.rename(folder / index.name)
    for command in (lambda path: fatpack.check(path, metadata=True), fatpack.doctor):
        with pytest.raises(UsageError, match=r"the index file of demo 1\.0, and no wheel of that release is beside it"):
            command(str(moved))


def test_architecture_specific_code_runs_on_one_of_the_devices() -> None:
    """The first trap: 100_real is listed on 10.3 and 10.7, and sm_100a runs on 10.0 alone."""
    (code, subject, message), *others = found(write("sm100", "100a", nvidia("100_real")))
    assert (code, subject, others) == ("FP3332", "sm100", [])
    assert "installers take the variant sm100 for 10.3, 10.7, where it does not run: lib.so" in message
    assert "lib.so (sm_100a): no image fits compute capability 10.3" in message


def test_family_code_runs_on_the_family_and_a_device_of_quotations_is_doubted() -> None:
    (code, subject, message), *others = found(write("sm100", "100f", nvidia("100_real")))
    assert (code, subject, others) == ("FP3321", "sm100", [])
    assert "takes" not in message
    assert "the variant sm100 for 10.7, and it is not known if it runs there" in message


def test_another_variant_that_runs_is_taken_there_instead() -> None:
    first = write("sm100", "100a", nvidia("100_real"))
    second = write("sm103", "103", nvidia("103_real"))
    assert "for 10.3, 10.7," in found(first)[0][2]
    assert found(first, second) == []


def test_code_for_a_minor_version_does_not_run_on_the_one_before() -> None:
    name = write("sm8x", "86", nvidia("80_real"))
    assert found(name) == []
    assert [subject for _, subject, _ in found(name, codes="FP3311")] == ["sm_80"]


@pytest.mark.parametrize(("platform", "expected"), [("manylinux_2_28_x86_64", 0), ("manylinux_2_28_aarch64", 1)])
def test_tegra_is_asked_about_on_aarch64(platform: str, expected: int) -> None:
    told = found(write("sm80", "80", nvidia("80_real"), platform=platform))
    assert len([message for _, _, message in told if "8.7" in message]) == expected


def test_code_of_an_earlier_major_is_never_brought_to_later_devices() -> None:
    """The second trap: drivers compile PTX 80 for 9.0, and the provider lists 80_virtual for 8.x alone."""
    sm80 = write("sm80", "80 p80", nvidia("80_real"))
    (code, subject, message), *others = found(sm80)
    assert (code, subject, others) == ("FP3335", "sm80", [])
    assert message.startswith("its code runs on 9.0, 10.0, 10.3")
    null = write("null", "75")
    told = [each for each in found(sm80, null) if each[0] == "FP3332"]
    assert [subject for _, subject, _ in told] == ["null"]
    assert "installers take the variant null for 9.0, 10.0" in told[0][2]
    assert f"{sm80} does" in told[0][2]
    fat = write("null", "75 80 p80")
    assert [code for code, _, _ in found(sm80, fat)] == ["FP3335"]


def test_what_no_wheel_of_the_release_serves_is_not_said_of_null() -> None:
    assert found(write("sm90", "90", nvidia("90_real")), write("null", "75")) == []


@pytest.mark.parametrize(
    ("bounds", "code", "expected"),
    [
        ({"cuda_version_lower_bound": ["12.0"]}, "p90", []),
        ({"cuda_version_lower_bound": ["11.8"]}, "p90", ["C8"]),
        ({}, "p90", ["C8"]),
        ({}, "90 p90", []),  # nothing is compiled
    ],
)
def test_the_driver_must_be_able_to_compile_what_is_taken(
    bounds: Mapping[str, Sequence[str]], code: str, expected: list[str]
) -> None:
    """The fourth trap: PTX .version 8.0 needs a driver of CUDA 12.0."""
    told = found(write("sm90", code, nvidia("90_real", **bounds)))
    assert [rule for rule in ("C8",) for _, _, message in told if f"[{rule}]" in message] == expected


def test_images_with_zstd_need_a_driver_of_cuda_12_4() -> None:
    data = linked_elf.build([fatbin.fatbin(zstd_entry(cubin(90, ["k"])))]).data
    told = found(write("sm90", data, nvidia("90_real", cuda_version_lower_bound=["12.0"])))
    assert [("FP3332", "[C15]" in message) for _, _, message in told] == [("FP3332", True)]
    right = write("sm90", data, nvidia("90_real", cuda_version_lower_bound=["12.4"]))
    assert found(right) == []


def zstd_entry(image: bytes) -> bytes:
    compress = pytest.importorskip("zstandard").ZstdCompressor().compress
    return fatbin.entry(compress(image), sm=90, flags=0x11 | 0x8000, inflated=len(image))


def test_code_runs_within_its_major_version_upwards() -> None:
    """The fifth trap, which is none: 80_real fits all of 8.x, and so does sm_80 code."""
    assert found(write("sm80", "80", nvidia("80_real"))) == []
    assert found(write("sm80", "80", nvidia("80_real", "86_real"))) == []


@pytest.mark.parametrize(
    ("label", "changes", "expected"),
    [
        (
            "sm90",
            {"key": "sm80"},
            ("label", "variant.json has the variants sm80, and the file name has the label sm90"),
        ),
        ("SM90", {"key": "sm90"}, ("label", "the label 'SM90' in its name has other characters")),
        ("sm90", {"shared": {**SHARED, "more": 1}}, ("variant.json", "variant.json is refused: it has the key 'more'")),
        ("sm90", {"without": ["variant.json"]}, ("RECORD", "RECORD does not list variant.json")),
    ],
)
def test_descriptions_that_installers_refuse(label: str, changes: dict[str, Any], expected: tuple[str, str]) -> None:
    code, subject, message = found(write(label, "90", nvidia("90_real"), **changes))[0]
    assert (code, subject) == ("FP3330", expected[0])
    assert message.startswith(expected[1])


def test_a_label_without_a_description_and_a_description_without_a_label() -> None:
    name = write(None, "90")
    Path(name).rename(name.replace(".whl", "-sm90.whl"))
    assert found(name.replace(".whl", "-sm90.whl"))[0][2].startswith("it has no variant.json")
    labelled = write("sm80", "80", nvidia("80_real"))
    Path(labelled).rename(name)
    assert found(name)[0][2] == "variant.json has the variants sm80, and the file name has no label"


def test_values_that_no_provider_lists() -> None:
    told = found(write("sm90", "90a", nvidia("90a_real")))
    assert [code for code, _, _ in told] == ["FP3333", "FP3335"]
    assert told[0][1] == "nvidia :: sm_arch"
    told = found(write("sm86", "86 p86", nvidia("86_real", "86_virtual")))
    assert [(code, message) for code, _, message in told if code == "FP3334"] == [
        ("FP3334", "no provider lists 86_virtual for nvidia :: sm_arch: only the other values count")
    ]


def test_a_provider_that_uv_does_not_have() -> None:
    shared = {**SHARED, "providers": {"nvidia": {"requires": ["nvidia-variant-provider>=1"]}}}
    told = found(write("sm90", "90", nvidia("90_real"), shared=shared))
    assert [(code, subject) for code, subject, _ in told] == [("FP3334", "nvidia")]


def index(told: Mapping[str, Properties], shared: Mapping[str, Any] = SHARED) -> None:
    Path("demo-1.0-variants.json").write_bytes(document(told, shared))


@pytest.mark.parametrize(
    ("said", "shared", "expected"),
    [
        ({"sm90": nvidia("90_real")}, SHARED, []),
        (
            {"sm90": nvidia("90_real", "80_real")},
            SHARED,
            [("sm90", "the index file says 90_real, 80_real of nvidia :: sm_arch, and variant.json 90_real")],
        ),
        (
            {"sm80": nvidia("80_real")},
            SHARED,
            [("sm90", "the index file has no variant sm90"), ("sm80", "and no wheel")],
        ),
        (
            {"sm90": nvidia("90_real")},
            {**SHARED, "$schema": "https://example.org/x.json"},
            [("$schema", "$schema is not the same in the index file and in variant.json")],
        ),
    ],
)
def test_the_index_file_says_what_the_wheels_say(
    said: Mapping[str, Properties], shared: Mapping[str, Any], expected: list[tuple[str, str]]
) -> None:
    name = write("sm90", "90", nvidia("90_real"))
    index(said, shared)
    told = found(name, codes="FP3331")
    assert [subject for _, subject, _ in told] == [subject for subject, _ in expected]
    for (_, _, message), (_, text) in zip(told, expected, strict=True):
        assert text in message


def test_an_index_file_that_installers_refuse() -> None:
    name = write("sm90", "90", nvidia("90_real"))
    Path("demo-1.0-variants.json").write_text(json.dumps({"variants": {}}))
    assert [(code, subject, message) for code, subject, message in found(name)] == [
        ("FP3330", "index", "the index file is refused: it has no key $schema")
    ]


def test_one_label_means_one_thing_in_a_release() -> None:
    first = write("sm90", "90", nvidia("90_real"))
    second = write("sm90", "90", nvidia("90_real", cuda_version_lower_bound=["12.0"]), platform="win_amd64")
    told = found(first, second, codes="FP3331")
    assert [subject for _, subject, _ in told] == ["sm90"]
    assert told[0][2].startswith(f"{first} says nothing of nvidia :: cuda_version_lower_bound")


def test_a_wheel_with_libraries_of_two_toolkits_needs_one_that_runs() -> None:
    files = {"demo/libold.so": library("80"), "demo/libnew.so": library("80 120")}
    name = file_name("demo", "sm120")
    data = variants.wheel("demo", "sm120", {"sm120": nvidia("120_real")}, files)
    Path(name).write_bytes(data)
    (code, subject, message), *others = found(name)
    assert (code, subject, [each[0] for each in others]) == ("FP3322", "sm120", ["FP3335"])
    assert "this library of it does not run there: libold.so" in message


def test_a_library_that_serves_in_part_does_not_serve() -> None:
    data = linked_elf.build([container("120", ["a"]), container("80", ["b"])]).data
    told = found(write("sm120", data, nvidia("120_real")))
    assert [code for code, _, _ in told] == ["FP3332"]


def test_older_drivers_get_null_where_the_variant_asks_for_newer_ones() -> None:
    sm80 = write("sm80", "80", nvidia("80_real", cuda_version_lower_bound=["12.0"]))
    told = found(sm80, write("null", "75"))
    assert [(code, subject) for code, subject, _ in told] == [("FP3332", "null")]
    assert "the variant null for 8.0 with a driver of CUDA 11.8, 8.6 with a driver of CUDA 11.8" in told[0][2]


def test_wheels_for_all_machines_declare_nothing_beside_variants() -> None:
    names = [write("sm90", "90", nvidia("90_real")), write("null", "75 90 p90"), write(None, "75 90 p90")]
    made = fatpack.check(names, metadata=True)
    assert made.verdict == "passed"
    Path(names[0]).unlink()
    assert [each.code for each in fatpack.check(names[2], metadata=True).violations] == ["FP3313"]


def kernel(archs: Sequence[str], code: str, name: str = "torch29-cxx11-cu128-x86_64-linux", kind: str = "cuda") -> str:
    folder = Path("build", name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.json").write_text(json.dumps({"backend": {"type": kind, "archs": archs}, "version": 1}))
    (folder / "_demo.abi3.so").write_bytes(library(code))
    return str(folder)


def told(folder: str) -> list[tuple[str, str]]:
    made = fatpack.check(folder, metadata=True)
    return [(each.code, each.message) for each in made.violations if each.code != "FP3319"]


def test_a_kernel_of_hugging_face_declares_its_architectures() -> None:
    assert told(kernel(["8.0", "9.0a", "12.0+PTX"], "80 90a 120 p120")) == []
    made = fatpack.check("build", metadata=True)
    assert [each.message for each in made.violations] == ["metadata.json declares 8.0, 9.0a, 12.0+PTX"]


@pytest.mark.parametrize(
    ("archs", "code", "expected"),
    [
        (["8.0", "9.0"], "80", [("FP3311", "metadata.json declares 9.0: no image fits compute capability 9.0 [C2]")]),
        (["9.0a"], "90", [("FP3311", "metadata.json declares 9.0a: no image is for exactly that")]),
        (["8.0+PTX"], "80", [("FP3311", "metadata.json declares 8.0+PTX: it has no PTX that later devices compile")]),
        (["8.0"], "80 90", [("FP3312", "has sm_90, which metadata.json does not declare")]),
    ],
)
def test_libraries_without_what_is_declared(archs: list[str], code: str, expected: list[tuple[str, str]]) -> None:
    found = told(kernel(archs, code))
    assert [each for each in found if each[0] in ("FP3311", "FP3312")][: len(expected)] == expected


def test_the_loader_accepts_a_device_on_which_nothing_runs() -> None:
    """The loader takes 10.0 for all of 10.x; the libraries have sm_100a."""
    found = told(kernel(["10.0"], "100a"))
    (message,) = (text for code, text in found if code == "FP3332")
    assert message.startswith("metadata.json declares 10.0, and the loader accepts it for 10.3, 10.7, where nothing")


def test_the_loader_refuses_a_device_on_which_all_runs() -> None:
    found = told(kernel(["8.0"], "80 p80"))
    (message,) = (text for code, text in found if code == "FP3335")
    assert "the loader refuses it for 7" not in message
    assert "the loader refuses it for 9.0, 10.0" in message


def test_jetsons_are_asked_about_in_folders_for_arm() -> None:
    assert not [text for code, text in told(kernel(["8.0"], "80")) if "8.7" in text]
    arm = kernel(["8.0"], "80", "torch29-cxx11-cu128-aarch64-linux")
    assert [code for code, text in told(arm) if "8.7" in text] == ["FP3321"]


def test_other_files_of_that_name_declare_nothing() -> None:
    folder = Path(kernel([], "80"))
    for text in ('{"a": 1}', "[]", "{", '{"backend": {"type": "cpu"}}'):
        (folder / "metadata.json").write_text(text)
        assert [code for code, _ in told(str(folder))] == ["FP3313"]
    (folder / "metadata.json").write_text('{"backend": {"type": "cuda", "archs": ["sm_90"]}}')
    assert told(str(folder))[0] == (
        "FP3301",
        "its declaration cannot be read: backend: archs has 'sm_90', which is no architecture",
    )


def test_a_kernel_for_amd() -> None:
    found = told(kernel(["gfx942"], "80", kind="rocm"))
    assert found == [("FP3311", "metadata.json declares gfx942: it has no device code for such devices")]


def test_a_floor_is_held_against_the_devices_that_need_it() -> None:
    """PTX of CUDA 12.0: an 8.0 does not compile it, and drivers before 12.0 know a 9.0."""
    name = write("cu", "80 p80", {"nvidia": {"cuda_version_lower_bound": ["11.4"]}})
    (message,) = (text for code, _, text in found(name) if code == "FP3332" and "[C8]" in text)
    assert "the variant cu for 9.0 with a driver of CUDA 11.8, where it does not run" in message
    assert "8.0" not in message.partition("where")[0]
    assert found(name, codes="FP3311") == []


def test_a_library_that_loads_the_runtime_of_a_newer_toolkit_needs_its_driver() -> None:
    data = linked_elf.build([container("90")], needed=[b"libcudart.so.12"]).data
    ((code, _, message),) = found(write("sm90", data, nvidia("90_real")))
    assert code == "FP3332"
    assert "for 9.0 with a driver of CUDA 11.8" in message
    assert "it loads libcudart.so.12, which needs a driver of CUDA 12.0 [C19]" in message
    assert found(write("sm90", data, nvidia("90_real", cuda_version_lower_bound=["12.0"]))) == []


def test_a_container_without_kernels_is_not_missed() -> None:
    data = linked_elf.build([container("90", ["a"]), container("80", [])]).data
    assert found(write("sm90", data, nvidia("90_real"))) == []


def test_a_library_that_asks_for_kernels_by_name_is_doubted() -> None:
    files = {"demo/libcublas.so.12": library("86"), "demo/lib.so": library("80")}
    name = file_name("demo", "sm80")
    Path(name).write_bytes(variants.wheel("demo", "sm80", {"sm80": nvidia("80_real")}, files))
    assert [(code, "for 8.0, and it" in message) for code, _, message in found(name)] == [("FP3321", True)]


def test_wheels_of_a_release_share_their_providers() -> None:
    other = {**SHARED, "$schema": "https://example.org/x.json"}
    names = write("sm80", "80", nvidia("80_real")), write("sm90", "90", nvidia("90_real"), shared=other)
    ((_, subject, message),) = found(*names, codes="FP3331")
    assert subject == "providers"
    assert names[0] in message


def test_descriptions_are_read_with_bounds() -> None:
    name = write("sm90", "90", said=b" " * (4 << 20) + b"{}")
    told = fatpack.check(name, metadata=True).violations
    assert [each.message for each in told if each.code == "FP3330"] == [
        "variant.json is refused: it has more than 4194304 bytes"
    ]


def test_an_index_file_that_cannot_be_read_and_one_beside_a_plain_wheel() -> None:
    name = write("sm90", "90", nvidia("90_real"))
    Path("demo-1.0-variants.json").mkdir()
    assert [subject for _, subject, _ in found(name, codes="FP3301")] == ["index"]
    Path("demo-1.0-variants.json").rmdir()
    index({"sm90": nvidia("90_real")})
    assert found(name, write(None, "75 90"), codes="FP3331") == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_for_an_index_file_is_not_waited_for() -> None:
    name = write("sm90", "90", nvidia("90_real"))
    os.mkfifo("demo-1.0-variants.json")
    ((_, subject, message),) = found(name, codes="FP3301")
    assert (subject, message.partition(";")[0]) == ("index", "demo-1.0-variants.json is no regular file")
    with pytest.raises(UsageError, match="is no regular file"):
        fatpack.explain(name, "H100", installer="uv")
    os.mkfifo("demo-1.0-cp313-cp313-any-sm80.whl")
    Path("demo-1.0-variants.json").unlink()
    assert fatpack.explain(".", "H100", cuda="13.0", installer="uv").installed[0].path.endswith(name)


def test_the_encoding_that_installers_do_not_read_is_refused_of_wheels_and_index_files() -> None:
    told = {"sm90": nvidia("90_real")}
    name = write("sm90", "90", told["sm90"], said=document(told).decode().encode("utf-16"))
    assert not fatpack.check(name, metadata=True)
    name = write("sm90", "90", told["sm90"])
    Path("demo-1.0-variants.json").write_bytes(b"\xef\xbb\xbf" + document(told))
    ((_, subject, message),) = found(name, codes="FP3330")
    assert (subject, message.partition(":")[0]) == ("index", "the index file is refused")
    twice = document(told)[:-1] + b', "variants": ' + json.dumps(told).encode() + b"}"
    Path("demo-1.0-variants.json").write_bytes(twice)
    ((_, _, message),) = found(name, codes="FP3330")
    assert message.endswith("the key 'variants' is there twice")


def test_the_digests_of_a_kernel_are_those_of_its_libraries() -> None:
    folder = Path(kernel(["8.0"], "80"))
    right = base64.b64encode(hashlib.sha256((folder / "_demo.abi3.so").read_bytes()).digest()).decode()
    for digest, expected in [(right, []), (base64.b64encode(bytes(32)).decode(), ["FP3603"]), ("no", ["FP3301"])]:
        stated = {"algorithm": "sha256", "files": {"_demo.abi3.so": digest, "_ops.py": right}}
        document = {"backend": {"type": "cuda", "archs": ["8.0"]}, "digest": stated}
        (folder / "metadata.json").write_text(json.dumps(document))
        assert [code for code, _ in told(str(folder))] == expected


def test_a_missing_index_file_is_a_note() -> None:
    name = write("sm90", "90", nvidia("90_real"))
    ((_, subject, message),) = found(name, codes="FP3336")
    assert (subject, message.partition(" ")[0]) == ("index", "demo-1.0-variants.json")
    assert fatpack.check(name, metadata=True)
    index({"sm90": nvidia("90_real")})
    assert found(name, codes="FP3336") == []
    assert found(write(None, "90"), codes="FP3336") == []


def test_doctor_says_the_same_of_descriptions() -> None:
    wrong = [write("sm80", "80", nvidia("80_real"), key="sm8"), write("sm90", "90", said=b"{")]
    index({"sm80": nvidia("86_real")})
    made, examined = fatpack.check(".", metadata=True), fatpack.doctor(".")
    codes = [code for code in ("FP3330", "FP3331") if any(each.code == code for each in made.violations)]
    assert codes == ["FP3330", "FP3331"]
    told = {(str(each.span.source[0]), each.code, each.message) for each in examined.findings}
    said = {(each.path, each.code, each.message) for each in made.violations if each.code in codes}
    assert said <= told
    assert {path for path, _, _ in told} == {f"./{name}" for name in wrong}
    assert any(code == "FP3301" for _, code, _ in told)
    assert not examined
    assert examined.exit_code == made.exit_code


def test_doctor_is_content_with_right_variants() -> None:
    write("sm80", "80", nvidia("80_real"))
    assert [each.code for each in fatpack.doctor(".").findings] == ["FP3336"]
    index({"sm80": nvidia("80_real")})
    assert fatpack.doctor(".").findings == ()


def test_a_file_that_is_no_archive_beside_wheels_fails() -> None:
    write("sm80", "80", nvidia("80_real"))
    index({"sm80": nvidia("80_real")})
    assert fatpack.check(".", metadata=True)
    Path(file_name("demo", "zz")).write_bytes(b"junk")
    made = fatpack.check(".", metadata=True)
    assert not made
    assert not fatpack.doctor(".")
