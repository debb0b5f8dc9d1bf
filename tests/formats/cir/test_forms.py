"""Every form that files have had is read; every form that can be written can be made from every other."""

from __future__ import annotations

import pytest
from tests.builders.cir import HOST, SM_80, SM_90, combined, parsed

from fatpack.errors import FormatError, Unsupported, UsageError
from fatpack.formats import cir, find_text_format
from fatpack.formats.cir.modules.model import TextModuleRecord
from fatpack.formats.cir.vocabulary import FORMS
from fatpack.io.source import BytesSource
from fatpack.testing.helpers import join_pieces

MODULES = {
    "enum": "#cir.offload<{}>",
    "draft": "#cir.offload_kind<{}>",
    "string": '"{}"',
}


def nested(style: str, keyword: str = "module", spelling: str = "") -> str:
    lines = ""
    for role, name, stored in (("host", "host", HOST), ("device", "device_0", SM_80)):
        attrs = [f'cir.offload.bundle_id = "{stored}"'] if spelling else []
        if style:
            attrs.append(f"cir.offload.kind = {MODULES[style].format(role)}")
        words = f" attributes {{{', '.join(attrs)}}}" if attrs else ""
        lines += f'{keyword} @{name if style else role}{words} {{\n  "cir.x"() : () -> ()\n}}\n'
    return lines


F0 = """module attributes {cir.gpu.bundle = {device = @device, host = @host}, cir.gpu.kernel_map = []} {
module @host attributes {cir.gpu.kind = "host"} {
}
module @device attributes {cir.gpu.kind = "device", cir.triple = "nvptx64-nvidia-cuda"} {
}
}
"""
FILES = {
    "prototype": F0,
    "op-string": f"module {{\ncir.offload.container {{\n{nested('string', 'builtin.module')}}}\n}}\n",
    "op-string by names": f"module {{\ncir.offload.container {{\n{nested('', 'builtin.module')}}}\n}}\n",
    "op": f"module {{\ncir.offload.container {{\n{nested('draft', 'builtin.module')}}}\n}}\n",
    "op with IDs": f"module {{\ncir.offload.container {{\n{nested('draft', 'builtin.module', 'id')}}}\n}}\n",
    "attribute": f"module attributes {{cir.offload.container}} {{\n{nested('enum', spelling='id')}}}\n",
    "attribute by builtin.module": f"builtin.module attributes {{cir.offload.container=unit}} {{\n{nested('enum')}}}\n",
    "nested": f'module @"k.cu" {{\nmodule attributes {{cir.offload.container}} {{\n{nested("enum")}}}\n}}\n',
    "nested in no module": f"module {{\n}}\nmodule attributes {{cir.offload.container}} {{\n{nested('enum')}}}\n",
    "op at file level": f"cir.offload.container {{\n{nested('draft')}}}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_form_is_read(name: str) -> None:
    container = parsed(FILES[name])
    form = name.split(maxsplit=1)[0]
    assert container.attrs["form"] == ("op" if name == "op at file level" else form)
    assert find_text_format(container.record.outline.text) == "cir-offload-container"  # type: ignore[attr-defined]
    roles = [image.record.role for image in container.images if isinstance(image.record, TextModuleRecord)]
    assert roles == ["host", "device"]
    assert container.images[0].target.offload == "host"
    assert not [finding for finding in container.findings if finding.severity == "error"]
    assert join_pieces(cir.write(container)).decode() == FILES[name]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_converted_into_every_form_that_is_written(name: str, form: str) -> None:
    container = parsed(FILES[name])
    with_ids = tuple(
        image.replace(attrs={"id": spelling}) for image, spelling in zip(container.images, (HOST, SM_80), strict=True)
    )
    made = join_pieces(cir.write(container.replace(images=with_ids, attrs={"form": form})))
    again = parsed(made, strict=True)
    assert again.attrs["form"] == form
    assert [image.attrs["id"] for image in again.images] == [HOST, SM_80]
    assert {finding.code for finding in again.findings} <= {"FP1507"}
    names = [image.record.module.name for image in again.images if isinstance(image.record, TextModuleRecord)]
    is_unchanged = made.decode() == FILES[name]
    device = b"device" if form == "prototype" else b"device_cuda_nvptx64_nvidia_cuda__sm_80"
    assert names == [b"host", b"device_0" if is_unchanged else device]
    assert (b"cir.gpu" in made) == (form == "prototype")


def test_kinds_of_operations_are_wrong_in_an_attribute_form_and_converting_rewrites_them() -> None:
    container = parsed(f"module attributes {{cir.offload.container}} {{\n{nested('draft')}}}\n")
    assert container.attrs["form"] == "attribute"
    assert {finding.code for finding in container.findings} == {"FP1503", "FP1515"}
    made = parsed(join_pieces(cir.write(container.replace(attrs={"form": "nested"}))), strict=True)
    assert (made.attrs["form"], {finding.code for finding in made.findings}) == ("nested", {"FP1503"})


def test_modules_without_ids_keep_their_names_when_they_are_converted() -> None:
    made = join_pieces(cir.write(parsed(FILES["op"]).replace(attrs={"form": "attribute"})))
    again = parsed(made, strict=True)
    assert [image.record.module.name for image in again.images if isinstance(image.record, TextModuleRecord)] == [
        b"host",
        b"device_0",
    ]
    assert b"bundle_id" not in made


def test_attributes_around_the_modules_are_kept() -> None:
    text = (
        FILES["nested"]
        .replace('@"k.cu"', '@"k.cu" attributes {demo.outer = #a}')
        .replace("container}", "container, demo.own}")
    )
    made = join_pieces(cir.write(parsed("#a = 1 : i32\n" + text).replace(attrs={"form": "attribute"})))
    assert made.startswith(b"#a = 1 : i32\nmodule attributes {cir.offload.container, demo.outer = #a, demo.own} {\n")
    made = join_pieces(cir.write(parsed("#a = 1 : i32\n" + text).replace(attrs={"form": "op"})))
    assert made.startswith(
        b"#a = 1 : i32\nmodule attributes {demo.outer = #a, demo.own} {\n  cir.offload.container {\n"
    )


@pytest.mark.parametrize("form", ["nested in a hat", "bytecode", "offload-module"])
def test_a_form_that_is_not_written_is_refused(form: str) -> None:
    with pytest.raises(UsageError, match="not written"):
        join_pieces(cir.write(parsed(FILES["attribute"]).replace(attrs={"form": form})))


def test_the_prototype_has_one_device() -> None:
    made = parsed(combined(*(("module {\n}\n", target) for target in (HOST, SM_80, SM_90))))
    with pytest.raises(UsageError, match="no place for 2 device modules"):
        join_pieces(cir.write(made.replace(attrs={"form": "prototype"})))


@pytest.mark.parametrize("through", FORMS)
def test_every_form_leads_back_to_the_same_container(through: str) -> None:
    """The order of attributes, the names and the IDs are the same again, through every other form."""
    module = 'module attributes {cir.triple = "x"} {\n  "cir.x"() {a = "}"} : () -> ()\n} loc(unknown)\n'
    made = combined((module, HOST), (module, SM_80))
    other = join_pieces(cir.write(parsed(made).replace(attrs={"form": through})))
    assert parsed(other).attrs["form"] == through
    assert not [finding for finding in parsed(other, strict=True).findings if finding.severity == "error"]
    indents = {line[: len(line) - len(line.lstrip())] for line in other.splitlines() if b"@host" in line}
    back = join_pieces(cir.write(parsed(other).replace(attrs={"form": "attribute"})))
    assert (back == made) if indents == {b"  "} else (b" ".join(back.split()) == b" ".join(made.split()))


def test_the_kind_may_be_an_alias() -> None:
    text = FILES["attribute"].replace("#cir.offload<device>", "#kind")
    assert not parsed("#other = #cir.offload<device>\n#kind = #other\n" + text, strict=True).findings


@pytest.mark.parametrize(
    "text",
    [
        "module {\n}\n",
        "// cir.offload.container\nmodule {\n}\n",
        'module attributes {demo.x = "cir.offload.container"} {\n}\n',
        'module @"cir.offload.container" {\n}\n',
        'module {\n  "cir.x"() {a = "cir.offload.container {"} : () -> ()\n}\n',
        "module attributes {demo.cir.offload.container} {\n}\n",
        "",
        "// nothing\n",
    ],
)
def test_the_name_of_the_marker_alone_makes_no_container(text: str) -> None:
    assert find_text_format(BytesSource(text.encode(), "x").view()) is None
    with pytest.raises(FormatError, match="not an offload container"):
        parsed(text)


@pytest.mark.parametrize(
    "head",
    [
        b"\xef\xbb\xbfmodule attributes {cir.offload.container} {",
        b"module\0\0\0attributes {cir.offload.container} {",
        b"\x7fELF",
        b"#!/bin/sh\n",
        b"#include <cir.offload.container>\n",
        b"int module = 1;",
    ],
)
def test_what_is_no_mlir_is_not_taken_for_it(head: bytes) -> None:
    assert find_text_format(BytesSource(head + bytes(64), "x").view()) is None


@pytest.mark.parametrize("size", [40, 4000, 70_000, 600_000])
def test_a_container_is_noticed_after_a_licence_and_many_definitions(size: int) -> None:
    definitions = "".join(f'#loc{i} = loc("a.cu":{i}:1)\n' for i in range(size // 25))
    text = "// Copyright {\n" * 5 + definitions + FILES["attribute"]
    assert find_text_format(BytesSource(text.encode(), "x").view()) == "cir-offload-container"
    assert len(parsed(text).images) == 2


def test_the_marker_of_a_generic_module_is_noticed_after_it() -> None:
    inside = (
        '"builtin.module"() <{sym_name = "host"}> ({\n^bb0:\n}) {cir.offload.kind = #cir.offload<host>} : () -> ()\n'
    )
    filler = '"cir.x"() : () -> ()\n' * 5000
    text = f'"builtin.module"() ({{\n{inside}{filler}}}) {{a.b = "x}}", cir.offload.container}} : () -> ()\n'
    assert find_text_format(BytesSource(text.encode(), "x").view()) == "cir-offload-container"
    assert parsed(text).attrs["form"] == "attribute"
    plain = text.replace(", cir.offload.container", "").replace(
        "cir.x", 'cir.x"() {a = "cir.offload.container"} : () -> () "cir.y'
    )
    assert find_text_format(BytesSource(plain.encode(), "x").view()) is None


X1 = """module @"k.cu" attributes {cir.triple = "x86_64-unknown-linux-gnu"} {
  cir.func @main() {
    cir.return
  }
  cir.offload.module @offload_device_module_gfx90a attributes {target = "gfx90a"} {
    cir.offload.func @k() kernel {
      cir.return
    }
  }
  cir.offload.module @offload_device_module_sm_80 attributes {target = "sm_80"} {
  }
}
"""


def test_the_other_representation_is_listed_and_not_split() -> None:
    container = parsed(X1)
    assert find_text_format(BytesSource(X1.encode(), "x").view()) == "cir-offload-container"
    assert [(image.target.offload, image.target.arch) for image in container.images] == [
        ("hip", "gfx90a"),
        ("cuda", "sm_80"),
    ]
    assert container.images[0].data.tobytes().startswith(b"cir.offload.module @offload_device_module_gfx90a")
    assert container.images[0].data.tobytes().endswith(b"}\n  }")
    assert [finding.code for finding in container.findings] == ["FP1509"]
    assert "not an offload container" in container.findings[0].message
    with pytest.raises(Unsupported, match="cannot be split"):
        cir.split_image(container.images[0])
    with pytest.raises(UsageError, match="not written"):
        join_pieces(cir.write(container.replace(images=container.images[:1])))
    assert join_pieces(cir.write(container)) == X1.encode()


def test_the_order_of_devices_is_kept_and_the_host_comes_first() -> None:
    module = "module {\n}\n"
    made = combined((module, SM_90), (module, HOST), (module, SM_80))
    assert [image.attrs["id"] for image in parsed(made).images] == [HOST, SM_90, SM_80]


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        ("#a.b = 1 : i32\n", "alias #a.b has a dot in its name"),
        ('// c\n!a = tuple<"x\n', "a string is not closed"),
        ('{-#\n  dialect_resources: {builtin: {a: "0x04"}}\n', "file metadata is not closed"),
    ],
)
def test_damage_before_the_first_module_is_reported_and_not_taken_for_another_file(before: str, problem: str) -> None:
    text = before + FILES["attribute"]
    assert cir.detect(BytesSource(text.encode()).view())
    with pytest.raises(FormatError, match=problem):
        parsed(text)
    prose = f"# how to write\n{before}a cir.offload.container"
    assert not cir.detect(BytesSource(prose.encode()).view())
