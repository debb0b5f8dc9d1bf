"""Combining: names, order, headers, aliases to a fixed point, resources; and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.builders.cir import HOST, SM_80, SM_90, Builder, combined, container_of, image_of, parsed, splits

from fatpack.errors import FormatError, Unsupported, UsageError
from fatpack.formats import cir
from fatpack.formats.cir.bundle_id import module_name
from fatpack.formats.cir.files.identifiers import AliasTable, find_needs
from fatpack.formats.cir.modules.model import TextModuleRecord
from fatpack.model import Image, Target
from fatpack.testing.helpers import join_pieces

EMPTY = "module {\n}\n"
IDS = (HOST, SM_80, "hip-amdgcn-amd-amdhsa--gfx90a:xnack+", "hip-amdgcn-amd-amdhsa--gfx90a:xnack-")


def lines_of(data: bytes, start: str) -> list[str]:
    return [line.strip() for line in data.decode().splitlines() if line.strip().startswith(start)]


def test_names_are_sanitised_and_unique() -> None:
    container = parsed(combined(*((EMPTY, spelling) for spelling in IDS)))
    assert [image.record.module.name for image in container.images if isinstance(image.record, TextModuleRecord)] == [
        b"host",
        b"device_cuda_nvptx64_nvidia_cuda__sm_80",
        b"device_hip_amdgcn_amd_amdhsa__gfx90a_xnack_",
        b"device_hip_amdgcn_amd_amdhsa__gfx90a_xnack__1",
    ]


def test_a_third_module_of_one_name_gets_the_next_number() -> None:
    assert module_name("a-b", {"device_a_b", "device_a_b_1"}) == "device_a_b_2"
    assert module_name("ä") == "device___"


def test_attributes_are_sorted_and_the_old_marks_are_replaced() -> None:
    host = (
        'module @"old" attributes {zz.last, "cir.b c" = 1 : i32, cir.offload.kind = "device", aa.first = [1, 2]} {\n}'
    )
    made = combined((host, HOST), (EMPTY, SM_80))
    assert lines_of(made, "module @host") == [
        f'module @host attributes {{aa.first = [1, 2], "cir.b c" = 1 : i32, cir.offload.bundle_id = "{HOST}", '
        "cir.offload.kind = #cir.offload<host>, zz.last} {"
    ]


def test_a_generic_module_gets_a_printed_header_and_keeps_its_body() -> None:
    body = '\n^bb0:\n  "cir.x"() : () -> ()\n'
    host = f'"builtin.module"() <{{sym_name = "a b"}}> ({{{body}}}) {{demo.k = 1 : i32}} : () -> () loc("x":1:1)\n'
    made = combined((host, HOST), (EMPTY, SM_80))
    assert b'demo.k = 1 : i32} {\n^bb0:\n  "cir.x"() : () -> ()\n  } loc("x":1:1)\n' in made


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("", b""),
        ("// only a comment\n", b""),
        ('"cir.x"() : () -> ()\n', b'\n"cir.x"() : () -> ()'),
        (
            "cir.func @f() {\n  cir.return\n}\n#a = 1 : i32\ncir.func @g() attributes {x = #a}\n",
            b"\ncir.func @f() {\n  cir.return\n}\ncir.func @g() attributes {x = #a}",
        ),
        ("module @a {\n}\nmodule @b {\n}\n", b"\nmodule @a {\n}\nmodule @b {\n}"),
    ],
)
def test_a_file_that_is_no_single_module_is_wrapped_as_mlir_does(text: str, body: bytes) -> None:
    made = combined((text, HOST), (EMPTY, SM_80))
    assert b"cir.offload.kind = #cir.offload<host>} {" + body + b"\n  }\n" in made


def test_an_alias_is_shared_only_if_all_that_it_means_is_the_same() -> None:
    """The values of !vec are the same text; they differ if !elt differs."""
    file = "!elt = {}\n!vec = vector<4x!elt>\n!same = i1\nmodule attributes {{a.t = !vec, a.s = !same}} {{\n}}\n"
    made = combined((file.format("f32"), HOST), (file.format("f64"), SM_80), (file.format("f32"), SM_90))
    assert lines_of(made, "!") == [
        "!elt = f32",
        "!vec = vector<4x!elt>",
        "!same = i1",
        "!d1_elt = f64",
        "!d1_vec = vector<4x!d1_elt>",
    ]
    assert b"{a.s = !same, a.t = !d1_vec, " in made
    assert made.count(b"a.t = !vec, ") == 2


def test_names_of_digits_get_a_letter_in_front_and_new_names_are_new_everywhere() -> None:
    body = '  %0:2 = "a.b"() : () -> (i1, i1)\n  "a.c"(%0#1) : (i1) -> ()\n'
    device = f"#1 = 2 : i32\n#d1_1 = 3 : i32\nmodule attributes {{a.x = #1, a.y = #d1_1}} {{\n{body}}}\n"
    made = combined(("#1 = 1 : i32\nmodule attributes {a.x = #1} {\n}\n", HOST), (device, SM_80))
    assert lines_of(made, "#") == ["#1 = 1 : i32", "#d1_1_1 = 2 : i32", "#d1_1 = 3 : i32"]
    assert b"a.x = #d1_1_1, a.y = #d1_1, " in made
    assert b'"a.c"(%0#1)' in made


def test_strings_comments_and_dialect_names_are_not_renamed() -> None:
    body = '  "a.b"() {s = "#x", t = #x.y, u = #x<z>, v = #x, w = "\\22#x"} : () -> ()  // #x\n  // #x\n'
    made = combined(
        ("#x = 1 : i32\nmodule attributes {a.b = #x} {\n}", HOST), (f"#x = 2 : i32\nmodule {{\n{body}}}\n", SM_80)
    )
    assert body.replace("v = #x,", "v = #d1_x,").rstrip().encode() in made


def test_unused_aliases_are_left_out_and_used_ones_stay_in_their_order() -> None:
    host = "#c = 1 : i32\n#unused = [#c]\n#b = [#c]\nmodule attributes {a.b = #b} {\n}\n#late = loc(unknown)\n"
    assert lines_of(combined((host, HOST), (EMPTY, SM_80)), "#") == ["#c = 1 : i32", "#b = [#c]"]


@pytest.mark.parametrize(
    ("file", "what", "place"),
    [
        (
            "#a = 1 : i32\n#a = 1 : i32\nmodule {\n}",
            "alias #a is defined twice, first at line 1, column 1",
            "line 2, column 1",
        ),
        ("module attributes {a.b = #nope} {\n}", "alias #nope is used but not defined", "line 1, column 26"),
        (
            "#a = [#b]\n#b = 1 : i32\nmodule attributes {a.b = #a} {\n}",
            "alias #b is used before its definition at line 2, column 1",
            "line 1, column 7",
        ),
        ("#a.b = 1 : i32\nmodule {\n}", "alias #a.b has a dot in its name", "line 1, column 1"),
        ("module {\n", "the region opened at line 1, column 8 is not closed", "line 2, column 1"),
        ("module {\n}}\n", "unexpected text", "line 2, column 2"),
        ('module {\n  "a\n}\n', "a string is not closed", "line 2, column 5"),
        ("module {\n} a.cu:1:2\n", "a location that is not parseable MLIR", "line 2, column 3"),
        ("module {\n} [unknown]\n", "a location that is not parseable MLIR", "line 2, column 3"),
        ("module attributes {a.b = 1, a.b = 2} {\n}", "attribute 'a.b' is given twice", "line 1, column 29"),
        ("module attributes {a.b = 1,} {\n}", "wrong attribute dictionary", "line 1, column 28"),
        ("module attributes {a.b = } {\n}", "attribute 'a.b' has no value", "line 1, column 26"),
        ("module @ {\n}", "wrong symbol", "line 1, column 9"),
        ("{-# a: {\nmodule {\n}", "file metadata is not closed", "line 3, column 2"),
    ],
)
def test_a_damaged_input_is_refused_with_its_place_before_anything_is_yielded(file: str, what: str, place: str) -> None:
    with pytest.raises(FormatError) as caught:
        next(iter(cir.write(container_of(image_of(EMPTY, HOST), image_of(file, SM_80)))))
    assert what in caught.value.problem
    assert caught.value.field == place
    assert caught.value.chain == ("input.cir",)


def test_a_location_may_be_defined_after_its_use() -> None:
    host = 'module {\n  "a.b"() : () -> () loc(#l)\n} loc(#m)\n#m = loc(unknown)\n#l = loc(fused[#m])\n'
    made = combined((host, HOST), (EMPTY, SM_80))
    assert made.startswith(b"#m = loc(unknown)\n#l = loc(fused[#m])\nmodule attributes")


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        ((SM_80, SM_90), "no host module"),
        ((HOST, "host-aarch64-unknown-linux-gnu", SM_80), "2 host modules"),
        ((HOST,), "no device module"),
        ((HOST, SM_80, SM_80), "two modules have the bundle ID"),
        ((HOST, "cuda-nvptx64-nvidia-cuda"), "it has 4 of the five parts"),
        ((HOST, "sycl-spir64-unknown-unknown-"), "kind 'sycl' is none of"),
        ((HOST, "cuda--nvidia-cuda--sm_80"), "names no architecture"),
    ],
)
def test_what_makes_no_container_is_refused(ids: tuple[str, ...], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        cir.combine_container(container_of(*(image_of(EMPTY, spelling) for spelling in ids)))


def test_a_target_gives_the_id_that_the_driver_would_write() -> None:
    host = image_of(EMPTY).replace(target=Target("x86_64-unknown-linux-gnu", "", "host"))
    device = image_of(EMPTY).replace(target=Target("nvptx64-nvidia-cuda", "sm_80", "cuda"))
    made = join_pieces(cir.write(container_of(host, device)))
    assert [image.attrs["id"] for image in parsed(made).images] == [HOST, "cuda-nvptx64-nvidia-cuda-unknown-sm_80"]
    with pytest.raises(UsageError, match="no bundle ID for triple"):
        cir.combine_container(container_of(host, device.replace(target=Target("", "sm_80", "cuda"))))


def test_a_container_is_no_module_to_combine() -> None:
    inner = combined((EMPTY, HOST), (EMPTY, SM_80))
    with pytest.raises(FormatError, match="a container where a module was expected"):
        cir.combine_container(container_of(image_of(EMPTY, HOST), image_of(inner, SM_80)))


@pytest.mark.parametrize("position", [0, 1])
def test_bytecode_is_refused_with_advice(position: int) -> None:
    files: list[str | bytes] = [EMPTY, EMPTY]
    files[position] = b"ML\xefR\x0dMLIR22.1.8\0"
    with pytest.raises(Unsupported, match=r"MLIR bytecode cannot be combined.*cir-opt"):
        cir.combine_container(container_of(image_of(files[0], HOST), image_of(files[1], SM_80)))


RESOURCES = """module attributes {{demo.t = dense_resource<key> : tensor<1xi32>}} {{
}}
{{-#
  dialect_resources: {{
    builtin: {{
      key: "{}",
      unused: "0x00"
    }},
    other: {{
      own: "0x{}"
    }}
  }}
#-}}
"""


def test_resource_keys_that_mean_something_else_are_renamed() -> None:
    first, second = RESOURCES.format("0x04000000AA", "11"), RESOURCES.format("0x04000000BB", "11")
    made = combined((first, HOST), (second, SM_80), (first, SM_90)).decode()
    assert made.count("demo.t = dense_resource<key>") == 2
    assert made.count("demo.t = dense_resource<key_1>") == 1
    assert made.endswith(
        '{-#\n  dialect_resources: {\n    builtin: {\n      key: "0x04000000AA",\n      key_1: "0x04000000BB"\n    },\n'
        '    other: {\n      own: "0x11"\n    }\n  }\n#-}\n'
    )
    assert (
        combined(*((data, image.attrs["id"]) for data, image in zip(splits(made), parsed(made).images, strict=True)))
        == made.encode()
    )


def test_resources_of_unknown_dialects_are_not_mixed_up() -> None:
    with pytest.raises(UsageError, match="different resources 'own' of the dialect other"):
        combined((RESOURCES.format("0x04", "11"), HOST), (RESOURCES.format("0x04", "22"), SM_80))


def test_crlf_survives() -> None:
    device = "#a = 1 : i32\r\nmodule attributes {a.b = #a} {\r\n  // } x\r\n  cir.x\r\n}\r\n"
    made = combined((EMPTY, HOST), (device, SM_80))
    assert b"{\r\n  // } x\r\n  cir.x\r\n  }\n" in made
    assert lines_of(made, "#a") == ["#a = 1 : i32"]


def most_of_a_split(image: Image) -> int:
    """Return the bytes of a module, of the aliases it uses and of the resources around it, each in a line."""
    record = image.record
    assert isinstance(record, TextModuleRecord)
    table = AliasTable(record.outline)
    used = find_needs(table, [(record.module.start, record.module.end)]).aliases
    aliases = sum(end - start + 1 for start, end in map(table.span, used))
    return image.size + 1 + aliases + sum(end - start + 1 for start, end in record.outline.metadata)


@pytest.mark.parametrize(
    "metadata", ['{-#dialect_resources:{builtin:{k:"0x0400000001",l:"0x0400000002"}}#-}', "{-##-}"]
)
def test_resources_are_never_spelled_longer_than_they_were(metadata: str, tmp_path: Path) -> None:
    uses = " a.k = dense_resource<k> : tensor<1xi8>," if "builtin" in metadata else ""
    text = f"{metadata}module attributes {{cir.offload.container}} {{"
    for kind, spelling in (("host", HOST), ("device", SM_80)):
        text += f'module @{kind} attributes {{{uses}cir.offload.bundle_id = "{spelling}",'
        text += f"cir.offload.kind = #cir.offload<{kind}>}} {{}}"
        uses = uses.replace("a.k", "a.l").replace("<k>", "<l>")
    text += "}"
    for image, part in zip(parsed(text).images, splits(text), strict=True):
        assert len(part) <= most_of_a_split(image)
    path = tmp_path / "device.mlir"
    path.write_bytes(splits(text)[1])
    reference.run("mlir-opt", "--allow-unregistered-dialect", path)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", range(60))
def test_random_modules_survive_combining_and_splitting_for_ever(seed: int) -> None:
    files = [Builder(1000 * seed + number, is_wide=seed % 2 == 0).file() for number in range(2 + seed % 3)]
    made = combined(*zip(files, IDS, strict=False))
    container = parsed(made, strict=True)
    assert not container.findings
    assert len(container.images) == len(files)
    for image, part in zip(container.images, splits(made), strict=True):
        assert len(part) <= most_of_a_split(image)
    for form in ("attribute", "op"):
        again = combined(
            *((data, image.attrs["id"]) for data, image in zip(splits(made), container.images, strict=True)), form=form
        )
        back = join_pieces(cir.write(parsed(again).replace(attrs={"form": "attribute"}))) if form == "op" else again
        assert back == made


def test_the_report_tells_everything_that_was_renamed() -> None:
    record = """!rec_S = !cir.struct<"S" {{data {0}}}>
module attributes {{a.t = !rec_S, a.r = dense_resource<k> : tensor<1xi8>}} {{
}}
{{-# dialect_resources: {{builtin: {{k: "0x{1}"}}}} #-}}
"""
    host, device = cir.combine_container(
        container_of(image_of(record.format("i1", "00"), HOST), image_of(record.format("i8", "01"), SM_80))
    ).report
    assert (host.name, host.id, host.source) == ("host", HOST, "input.cir")
    assert (dict(host.aliases), host.records, dict(host.resources)) == ({}, (), {})
    assert dict(device.aliases) == {"!rec_S": "!d1_rec_S"}
    assert [(item.kind, item.old, item.new, item.reason) for item in device.records] == [
        ("struct", "S", "S.device_cuda_nvptx64_nvidia_cuda__sm_80", "defined differently")
    ]
    assert dict(device.resources) == {"k": "k_1"}
