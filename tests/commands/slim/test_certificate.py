"""Certificates: they say what was proved, follow their schema, and are the same for the same files."""

from __future__ import annotations

import hashlib
import json

import jsonschema
from tests.builders import linked_elf
from tests.builders.linked_elf import entry, fatbin

from fatpack.commands.slim.certificate import certificate_record, render_certificate
from fatpack.io.source import BytesSource
from fatpack.proof import prove
from fatpack.proof.ledger import Difference, ProofResult
from fatpack.text.schemas import schema_text

SM80, SM90 = entry(2, 80, b"\x7fELF" + bytes(600)), entry(2, 90, b"\x7fELF" + bytes(80))
LIBRARY = linked_elf.build([fatbin(SM80, SM90), fatbin(SM80)])
SLIM = linked_elf.shrunk(LIBRARY, [fatbin(SM90), fatbin()])


def verdict(after: bytes) -> ProofResult:
    return prove(BytesSource(LIBRARY.data, "lib.so").view(), BytesSource(after, "slim.so").view())


def test_a_certificate_says_what_is_in_both_files() -> None:
    document = certificate_record(verdict(SLIM), "1.2")
    jsonschema.validate(document, json.loads(schema_text("certificate")))
    assert document["proved"] and not document["differences"]
    assert document["before"]["sha256"] == hashlib.sha256(LIBRARY.data).hexdigest()
    assert document["after"] == {"name": "slim.so", "size": len(SLIM), "sha256": hashlib.sha256(SLIM).hexdigest()}
    assert [item["sha256"] for item in document["kept"]] == [hashlib.sha256(SM90[64:]).hexdigest()]
    assert [item["sha256"] for item in document["dropped"]] == [hashlib.sha256(SM80[64:]).hexdigest()] * 2
    assert [item["fate"] for item in document["containers"]] == ["reduced", "emptied"]
    assert document == certificate_record(verdict(SLIM), "1.2")


def test_what_differs_is_named() -> None:
    at = LIBRARY.places[".data"][0]
    lie = bytearray(LIBRARY.data)
    lie[at] ^= 1
    found = verdict(bytes(lie))
    document = certificate_record(found, "1.2")
    jsonschema.validate(document, json.loads(schema_text("certificate")))
    assert not document["proved"] and document["difference_count"] == 1
    assert [item["address"] for item in document["differences"]] == [at]
    lines = list(render_certificate(found))
    assert lines[0] == "slim.so is not lib.so with less device code:"
    assert f"at address {at:#x}" in lines[1] and "expected 64" in lines[1] and "found 65" in lines[1]


def test_the_text_says_what_was_proved() -> None:
    lines = list(render_certificate(verdict(SLIM)))
    assert lines[0] == "slim.so is lib.so with less device code, and nothing else"
    assert "2 containers, 2 changed or moved" in lines[1]


def test_of_another_program_a_sentence_says_what_differs() -> None:
    kinds = ("file header", "flags of a loaded segment", "program headers but PT_LOAD", "x", "y", "z")
    differences = tuple(Difference(what, 64, None, "0" * 99, "\033") for what in kinds)
    found = verdict(SLIM).replace(is_proved=False, differences=differences, difference_count=26)
    assert list(render_certificate(found)) == [
        "slim.so is another program than lib.so, and not the same with less device code",
        "26 differences: file header, flags of a loaded segment, program headers but PT_LOAD and 3 other things; "
        "--json lists them",
    ]
    few = list(render_certificate(found.replace(differences=differences[:2], difference_count=2)))
    assert few[1] == f"  file header at address 0x40: expected {'0' * 49}…, found \\x1b"
