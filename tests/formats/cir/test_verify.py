"""Findings of containers that break a rule, with their positions; damage after the first module."""

from __future__ import annotations

import pytest
from tests.builders.cir import HOST, SM_80, parsed

from fatpack.errors import FormatError
from fatpack.formats import cir
from fatpack.formats.cir import verify
from fatpack.formats.cir.modules.attributes import ModuleFacts
from fatpack.formats.cir.reader import MAX_FINDINGS
from fatpack.io.source import BytesSource
from fatpack.scanner import FoundContainer, scan

OP = "'builtin.module' op "


def module(name: str = "host", kind: str = "#cir.offload<host>", spelling: str | None = HOST, more: str = "") -> str:
    stored = f', cir.offload.bundle_id = "{spelling}"' if spelling is not None else ""
    return f"  module @{name} attributes {{cir.offload.kind = {kind}{stored}{more}}} {{\n  }}\n"


DEVICE = module("d", "#cir.offload<device>", SM_80)


def container(*modules: str, marker: str = "cir.offload.container") -> str:
    return f"module attributes {{{marker}}} {{\n{''.join(modules)}}}\n"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (container(), "FP1502", f"line 1, column 1: {OP}expects host module as the first nested op"),
        (
            container("  cir.x\n", module(), DEVICE),
            "FP1502",
            f"line 2, column 3: {OP}expects host module as the first nested op",
        ),
        (
            container(module(), "  cir.x\n", DEVICE),
            "FP1502",
            f"line 4, column 3: {OP}expects only nested builtin.module ops",
        ),
        (
            container(module(kind='"host"'), DEVICE),
            "FP1515",
            f"line 2, column 3: module 0 @host: {OP}expects 'cir.offload.kind' offload kind attribute",
        ),
        (
            container(module(), module("d", "#cir.offload<gpu>", SM_80)),
            "FP1502",
            f"line 4, column 3: module 1 @d: {OP}expects 'cir.offload.kind' value 'device', found 'gpu'",
        ),
        (
            container(module(kind="#cir.offload<device>"), DEVICE),
            "FP1502",
            f"line 2, column 3: module 0 @host: {OP}expects 'cir.offload.kind' value 'host'",
        ),
        (
            container(module(), DEVICE, marker='cir.offload.container = "x"'),
            "FP1502",
            "line 1, column 20: expects 'cir.offload.container' to be a unit attribute",
        ),
        (
            container(
                module(),
                DEVICE.replace("{\n", "{\n    cir.func @f() attributes {cir.offload.kind = 1 : i32} {\n    }\n"),
            ),
            "FP1502",
            "line 5, column 31: expects 'cir.offload.kind' attribute to be attached to 'builtin.module'",
        ),
        (
            container(
                module(), DEVICE.replace("{\n", '{\n    "cir.x"() {a = "}{", cir.offload.container} : () -> ()\n')
            ),
            "FP1502",
            "line 5, column 26: expects 'cir.offload.container' attribute to be attached to 'builtin.module'",
        ),
        (
            container(module(), DEVICE, DEVICE.replace(SM_80, "cuda-nvptx64-nvidia-cuda--sm_90")),
            "FP1506",
            "line 6, column 3: redefinition of symbol named 'd'",
        ),
        (
            container(module(), DEVICE, DEVICE.replace("@d", "@e")),
            "FP1504",
            f"line 6, column 3: duplicate module bundle ID '{SM_80}'",
        ),
        (
            container(module(), DEVICE.replace(SM_80, "sm_80")),
            "FP1505",
            "line 4, column 3: invalid module bundle ID 'sm_80': "
            "it has 1 of the five parts kind-arch-vendor-os-environment",
        ),
        (
            container(module(), DEVICE.replace("--sm_80", "-sm_80")),
            "FP1511",
            "line 4, column 3: the processor of 'cuda-nvptx64-nvidia-cuda-sm_80' is in place of the environment",
        ),
        (
            container(module(), DEVICE.replace(f', cir.offload.bundle_id = "{SM_80}"', "")),
            "FP1503",
            "line 4, column 3: nested module @d is missing 'cir.offload.bundle_id'",
        ),
        (
            f"module {{\n{container(module(), DEVICE)}{container(module(), DEVICE)}}}\n",
            "FP1508",
            "line 8, column 1: another container; cir-offload-merge takes files with exactly one",
        ),
        (
            "module {\n  cir.offload.container {\n  }\n}\n",
            "FP1502",
            "line 2, column 3: 'cir.offload.container' op expects host module as the first nested op",
        ),
        (
            "module {\n  cir.offload.container {\n    module attributes {cir.offload.kind = 1} {\n    }\n  }\n}\n",
            "FP1502",
            f"line 3, column 5: module 0: {OP}expects 'cir.offload.kind' string attribute",
        ),
    ],
)
def test_a_broken_rule_is_a_finding_with_its_place(text: str, code: str, message: str) -> None:
    found = [item for item in parsed(text).findings if item.code == code]
    assert [item.message for item in found] == [message] * len(found)
    line, column = (int(word.strip(":,")) for word in message.split()[1:4:2])
    assert found[0].span.start == sum(map(len, text.splitlines(True)[: line - 1])) + column - 1
    if code in ("FP1502", "FP1504", "FP1506", "FP1508", "FP1515"):
        assert found[0].severity == ("warning" if code == "FP1515" else "error")
        with pytest.raises(FormatError) as caught:
            parsed(text, strict=True)
        assert caught.value.field == message.partition(": ")[0]
    else:
        parsed(text, strict=True)


def test_a_good_container_has_no_findings() -> None:
    assert not parsed(container(module(), DEVICE)).findings


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        ('"cir.x"() {\ncir.offload.kind = 1} : () -> ()', "line 4, column 1"),
        ('"cir.x"() {a = "s{", // c {\n// d\nb = [1],\ncir.offload.kind = 1} : () -> ()', "line 6, column 1"),
        ('%0 = "cir.x"() <{b = {c = 2}, cir.offload.kind}> : () -> i32', "line 3, column 31"),
        ("cir.func @f() attributes {\n  cir.offload.kind} {\n}", "line 4, column 3"),
        ('"cir.x"() {a = {cir.offload.kind = 1}} : () -> ()', ""),
        ('"cir.x"() {a = [{\ncir.offload.kind = 1}]} : () -> ()', ""),
        ('cir.x // {cir.offload.kind = 1\n"cir.y"() {a = "{cir.offload.kind = 1"} : () -> ()', ""),
        ("module attributes {\na.b,\ncir.offload.kind = 1} {\nmodule attributes {\ncir.offload.kind} {\n}\n}", ""),
    ],
)
def test_an_attribute_on_what_is_no_module_is_found_in_several_lines(operation: str, place: str) -> None:
    found = parsed(container(module().replace("{\n", f"{{\n{operation}\n"), DEVICE)).findings
    text = "expects 'cir.offload.kind' attribute to be attached to 'builtin.module'"
    assert [item.message for item in found] == ([f"{place}: {text}"] if place else [])


def test_the_words_of_rules_in_strings_comments_and_deeper_modules_break_none() -> None:
    body = (
        '{\n    "cir.x"() {a = "{cir.offload.kind = 1}"} : () -> ()  // {cir.offload.kind}\n'
        "    module attributes {cir.offload.kind = #cir.offload<host>} {\n"
        "      module attributes {cir.offload.kind = #cir.offload<host>} {\n"
        "        module attributes {cir.offload.kind = #cir.offload<host>} {\n        }\n      }\n    }\n"
    )
    assert not parsed(container(module(), DEVICE.replace("{\n", body))).findings


def test_findings_of_one_container_are_bounded() -> None:
    modules = [DEVICE.replace("@d", f"@d{number}") for number in range(3 * MAX_FINDINGS)]
    findings = parsed(container(module(), *modules)).findings
    assert len(findings) == MAX_FINDINGS + 1
    # All modules but the first have its ID; the last finding represents the unlisted ones.
    assert sum(item.count for item in findings) == len(modules) - 1


@pytest.mark.parametrize("limit", ["_MOST", "_BUDGET"])
def test_places_that_are_not_checked_are_reported(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    operations = '"cir.x"() {cir.offload.kind = 1} : () -> ()\n' * 4
    text = container(module().replace("{\n", f"{{\n{operations}"), DEVICE)
    assert {item.code for item in parsed(text).findings} == {"FP1502"}
    line = text.index("cir.offload.kind = 1")
    monkeypatch.setattr(f"fatpack.formats.cir.verify.{limit}", 2 if limit == "_MOST" else 3 * line)
    last = parsed(text).findings[-1]
    assert (last.code, last.severity) == ("FP1005", "error")
    assert "places of 'cir.offload' attributes are checked, and more follow" in last.message


def test_damage_after_the_first_module_does_not_hide_it() -> None:
    text = container(module(), DEVICE)
    cut = text[: text.index("@d")]
    found = parsed(cut)
    assert [image.attrs["id"] for image in found.images] == [HOST]
    first = found.findings[0]
    assert (first.code, first.severity) == ("FP1501", "error")
    assert first.message.startswith("line 4, column ")
    assert first.span.start == len(cut)
    with pytest.raises(FormatError):
        parsed(cut, strict=True)
    items = list(scan(BytesSource(cut.encode(), "x").view()))
    assert isinstance(items[0], FoundContainer)
    assert len(items[0].images) == 1


def test_an_unreadable_location_is_named() -> None:
    text = container(module(), DEVICE).replace("  }\n  module @d", "  } a.cu:1:2\n  module @d")
    first = parsed(text).findings[0]
    assert first.code == "FP1501"
    assert "line 3, column 5: a location that is not parseable MLIR" in first.message
    assert "pretty debug info" in first.hint


def test_the_modules_of_a_file_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.limits.IMAGES", 2)
    found = parsed(container(module(), DEVICE))
    assert len(found.images) == 1
    assert "more than 2 modules" in found.findings[0].message


def test_the_facts_of_a_container() -> None:
    stub = "cir.func @s() attributes {cu.kernel_name = #cir.cu.kernel_name<_Z1kv>} {\n    cir.return\n  }"
    kernel = "cir.func @_Z1kv() cc(amdgpu_kernel) {\n    }"
    other = '"cir.func"() <{sym_name = "g"}> ({\n    }) {cc = 1} : () -> ()'
    more = ', cir.lang = #cir.lang<cxx>, cir.cu.device_binary = "\\00" : !cir.array<!u8i x 1>, demo.x'
    text = container(
        module(more=more).replace("{\n  }", f"{{\n    {stub}\n  }}"),
        DEVICE.replace("{\n  }", f"{{\n    {kernel}\n    {other}\n  }}"),
    )
    host, device = cir.describe(parsed(text))["modules"]  # type: ignore[misc, attr-defined]
    assert host == {
        "name": "host",
        "role": "host",
        "attributes": {"cir.lang": "#cir.lang<cxx>", "cir.cu.device_binary": "28 bytes of text"},
        "op_counts": {"cir.func": 1, "cir.return": 1},
        "kernels": [],
        "stubs": [{"symbol": "s", "kernel": "_Z1kv"}],
    }
    assert device["kernels"] == ["_Z1kv"]
    assert device["op_counts"] == {"cir.func": 2}


def test_every_style_of_kind_has_a_form_that_takes_it() -> None:
    for form, style in (("attribute", "enum"), ("op", "draft"), ("op-string", "string")):
        roles = ((1, "host"), (2, "device"))
        modules = tuple(ModuleFacts(at, None, kind, style, None, "", {}) for at, kind in roles)
        facts = verify.ContainerFacts(0, form.startswith("op"), form, None, 1, None, modules)
        assert [breach.code for breach in verify.check_rules(facts)] == ["FP1503"]
