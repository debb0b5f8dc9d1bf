"""Known facts of the files in ``fixtures/cir/samples``: structure, contents, messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders.cir import HOST, SM_80, combined, parsed, splits

from fatpack.errors import FormatError
from fatpack.formats import cir
from fatpack.formats.cir.bytecode.operations import read_functions
from fatpack.formats.cir.gpu_binary import text_binaries
from fatpack.formats.cir.modules.contents import list_functions as defined
from fatpack.formats.cir.modules.contents import list_symbols
from fatpack.formats.cir.modules.model import BytecodeModuleRecord, LaunchStub, TextModuleRecord
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.io.source import BytesSource
from fatpack.model import Container
from fatpack.testing.helpers import join_pieces

SAMPLES = Path(__file__).parents[2] / "fixtures" / "cir" / "samples"


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def op_counts(container: Container) -> list[dict[str, int]]:
    found = []
    for image in container.images:
        record = image.record
        assert isinstance(record, (TextModuleRecord, BytecodeModuleRecord))
        counts = record.op_counts if isinstance(record, BytecodeModuleRecord) else record.module.contents.op_counts
        found.append(dict(counts))
    return found


def symbols_of(data: bytes) -> tuple[str, ...]:
    """Return the symbols that the only module of a file defines."""
    return list_symbols(Outliner(BytesSource(data, "x").view()).outline().modules[0])


def test_two_empty_modules_give_the_text_of_the_tool() -> None:
    made = combined((sample("host_min.mlir"), HOST), (sample("device_min.mlir"), SM_80))
    assert made == sample("container_attr_min.mlir") + b"\n"


def test_the_smallest_container() -> None:
    container = parsed(sample("container_attr_min.mlir"))
    assert [image.target.offload for image in container.images] == ["host", "cuda"]
    assert [image.attrs["id"] for image in container.images] == [HOST, SM_80]
    assert container.images[1].target.arch == "sm_80"
    assert container.images[1].target.triple == "nvptx64-nvidia-cuda"
    assert not container.findings


@pytest.mark.parametrize("name", ["container_op_generic.mlir", "container_op_v6.mlirbc"])
def test_the_generic_operation_form(name: str) -> None:
    container = parsed(sample(name))
    assert container.attrs["form"] == "op-string"
    facts = cir.describe(container)["modules"]
    assert [module["name"] for module in facts] == ["host", "device_0", "device_1"]  # type: ignore[index, attr-defined]
    assert op_counts(container) == [{}, {"cir.func": 1, "cir.return": 1}, {}]


def test_the_symbols_of_a_generic_module() -> None:
    data = splits(sample("container_op_generic.mlir"))[1]
    assert symbols_of(data) == ("k0",)


def test_everything_that_could_confuse_a_lexer() -> None:
    data = sample("host_lex.mlir")
    module = Outliner(BytesSource(data, "x").view()).outline().modules[0]
    assert module.name == b"/src dir/k}.cu"
    assert dict(module.contents.op_counts) == {
        "cir.brcond": 1,
        "cir.func": 1,
        "cir.global": 1,
        "cir.pair": 1,
        "cir.return": 2,
        "cir.scope": 1,
        "cir.unreachable": 1,
        "cir.use": 1,
    }
    assert symbols_of(data) == (".str", "f")
    assert [attr.name for attr in module.attrs][-1] == b"dlti.dl_spec"


def test_aliases_that_mean_something_else_are_renamed_and_the_others_shared() -> None:
    container = parsed(combined((sample("host_lex.mlir"), HOST), (sample("device_alias_conflict.mlir"), SM_80)))
    assert op_counts(container)[1] == {"cir.func": 1, "cir.return": 1}
    images = [image.replace(record=None) for image in container.images]
    both = container.replace(
        images=tuple(
            image.replace(data=BytesSource(sample(name), name).view())
            for image, name in zip(images, ["host_lex.mlir", "device_alias_conflict.mlir"], strict=True)
        )
    )
    host, device = cir.combine_container(both).report
    assert not host.aliases
    assert dict(device.aliases) == {
        "!word": "!d1_word",
        "#tag": "#d1_tag",
        "#loc1": "#d1_loc1",
        "#loc9": "#d1_loc9",
    }


def test_a_split_device_takes_only_the_locations_it_uses() -> None:
    lines = splits(sample("locs.mlir"))[1].splitlines()
    assert [line.split()[0] for line in lines if line.startswith(b"#")] == [b"#loc", b"#loc5"]


def test_a_function_that_a_stub_launches_is_a_kernel_whatever_its_calling_convention() -> None:
    modules = cir.describe(parsed(sample("locs.mlir")))["modules"]
    assert [module["kernels"] for module in modules] == [[], ["k"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["locs.mlir", "locs_v6.mlirbc"])
def test_locations_change_nothing_about_operations(name: str) -> None:
    counts = op_counts(parsed(sample(name)))
    assert counts == [{"cir.call": 1, "cir.func": 2, "cir.return": 2}, {"cir.func": 1, "cir.return": 1}]


def test_a_split_module_takes_only_its_own_resources() -> None:
    host, device = splits(sample("resources.mlir"))
    assert b"host_blob:" in host
    assert b"dev_blob" not in host
    assert b"dev_blob:" in device
    assert b"host_blob" not in device
    assert b'"odd } key #-}": "value"' in host


def test_the_embedded_gpu_binary_comes_out_whole() -> None:
    outline = Outliner(BytesSource(sample("host_device_binary.mlir"), "x").view()).outline()
    (binary,) = text_binaries(outline)
    assert binary.data.tobytes() == sample("host_device_binary.payload")
    assert binary.data.tobytes()[:4] == b"\x50\xed\x55\xba"


def test_records_of_2026_files_that_differ_are_renamed_and_their_layouts_with_them() -> None:
    made = combined((sample("host_2026.cir"), HOST), (sample("device_sm80_2026.cir"), SM_80))
    assert b'!cir.struct<"Args.device_cuda_nvptx64_nvidia_cuda__sm_80" {data !s32i, data !cir.double}>' in made
    assert made.count(b'!cir.struct<"dim3"') == 1
    assert b"cir.record_layouts = {Args.device_cuda_nvptx64_nvidia_cuda__sm_80 = #cir.record_layout<" in made
    host, device = parsed(made).images
    assert isinstance(host.record, TextModuleRecord)
    assert isinstance(device.record, TextModuleRecord)
    assert host.record.module.contents.stubs == (LaunchStub("_Z20__device_stub__saxpyi4Args", "_Z5saxpyi4Args"),)
    assert device.record.module.contents.kernels == ("_Z5saxpyi4Args",)


def test_a_container_of_2026_with_two_architectures() -> None:
    container = parsed(sample("container_attr_2026.cir"))
    assert [image.target.arch for image in container.images] == ["", "sm_80", "sm_90"]
    kernels = [
        image.record.module.contents.kernels for image in container.images if isinstance(image.record, TextModuleRecord)
    ]
    assert kernels == [(), ("_Z5scalePff",), ("_Z5scalePff",)]


def test_the_older_forms() -> None:
    enum, string = parsed(sample("container_op_enum.cir")), parsed(sample("container_op_string.cir"))
    assert (enum.attrs["form"], string.attrs["form"]) == ("op", "op-string")
    assert [image.target.offload for image in enum.images] == ["host", "none"]
    assert [image.record.module.name for image in string.images if isinstance(image.record, TextModuleRecord)] == [
        None,
        None,
    ]
    assert {finding.code for finding in enum.findings} == {"FP1507", "FP1503"}


@pytest.mark.parametrize(
    ("name", "place", "sentence"),
    [
        ("device_first.cir", "line 2, column 3", "'builtin.module' op expects 'cir.offload.kind' value 'host'"),
        ("two_hosts.cir", "line 4, column 3", "'builtin.module' op expects 'cir.offload.kind' value 'device'"),
        ("no_kind.cir", "line 2, column 3", "'builtin.module' op expects 'cir.offload.kind' offload kind attribute"),
        ("extra_op.cir", "line 4, column 3", "'builtin.module' op expects only nested builtin.module ops"),
        ("no_device.cir", "line 1, column 1", "'builtin.module' op expects at least one device module"),
        ("not_unit.cir", "line 1, column 20", "expects 'cir.offload.container' to be a unit attribute"),
    ],
)
def test_the_first_finding_is_the_sentence_of_the_verifier(name: str, place: str, sentence: str) -> None:
    first = parsed(sample(name)).findings[0]
    assert first.code == ("FP1515" if name == "no_kind.cir" else "FP1502")
    assert first.message.startswith(f"{place}: ")
    assert sentence in first.message
    with pytest.raises(FormatError) as caught:
        parsed(sample(name), strict=True)
    assert sentence in caught.value.problem
    assert caught.value.field == place
    assert caught.value.offset == first.span.start


def test_a_container_without_ids_is_valid_but_cannot_be_split_by_target() -> None:
    container = parsed(sample("missing_bundle_id.cir"), strict=True)
    assert [finding.code for finding in container.findings] == ["FP1503"]
    assert "nested module @host is missing 'cir.offload.bundle_id'" in container.findings[0].message


def test_a_region_without_an_end_is_refused_at_the_end_of_the_file() -> None:
    with pytest.raises(FormatError, match="region opened at line 1, column 8 is not closed") as caught:
        parsed(sample("unterminated.cir"))
    assert (caught.value.offset, caught.value.field) == (9, "line 2, column 1")


@pytest.mark.parametrize(
    "pair",
    [
        ("container_attr_min.mlir", "container_attr_min_v0.mlirbc"),
        ("container_op_generic.mlir", "container_op_v6.mlirbc"),
        ("locs.mlir", "locs_v6.mlirbc"),
        ("resources.mlir", "resources_v6.mlirbc"),
    ],
)
def test_bytecode_says_the_same_as_the_text_it_was_made_from(pair: tuple[str, str]) -> None:
    text, bytecode = (parsed(sample(name)) for name in pair)
    assert [image.target for image in text.images] == [image.target for image in bytecode.images]
    assert [dict(image.attrs) for image in text.images] == [dict(image.attrs) for image in bytecode.images]
    assert cir.describe(text)["modules"] == cir.describe(bytecode)["modules"]
    assert [defined(image.record.module) for image in text.images if isinstance(image.record, TextModuleRecord)] == [
        read_functions(image.record.file, image.record.node).defined
        for image in bytecode.images
        if isinstance(image.record, BytecodeModuleRecord)
    ]
    assert join_pieces(cir.write(bytecode)) == sample(pair[1])
