"""The law of failures: with ``--json`` a command prints one document, also if it fails early."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.conftest import Ran, fatpack, folder

from fatpack.commands import COMMANDS, load_command
from fatpack.text.schemas import schema_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["fatpack", "folder"]  # fixtures

#: Commands with ``--json``, each with words that it refuses itself, and with the exit code of that.
REFUSED: dict[str, list[tuple[list[str], int]]] = {
    "inspect": [
        ([], 2),
        (["a.cubin", "--runtime", "--kernels"], 2),
        (["a.cubin", "--runtime", "--rows", "csv"], 2),
        (["a.cubin", "--by", "arch", "--one-program"], 2),
    ],
    "slim": [
        ([], 2),
        (["a.cubin", "--for", "RTX 9999", "-o", "x"], 2),
        (["--verify", "a.cubin"], 2),
        (["--verify", "a.cubin", "gone"], 5),
        (["a.cubin", "--keep-ptx", "all"], 2),
    ],
    "split": [([], 2), (["gone.whl", "-d", "x"], 5), (["a.cubin", "-d", "x"], 2), (["--verify", "a.cubin"], 2)],
    "link-inputs": [([], 2), (["gone.o"], 5), (["-l", "gone"], 2), (["pkg.bin", "-d", ""], 2)],
    "targets": [(["bogus"], 2), (["--runs-on"], 2), (["sm_90", "--boards"], 2)],
    "check": [(["a.cubin", "--require", "RTX 9999"], 2), (["a.cubin", "--config", "gone.toml"], 5), ([], 2)],
    "check-stages": [([], 2), (["a.cubin"], 2), (["a.cubin", "gone"], 5)],
    "check-kpack": [([], 2), (["gone"], 5), ([".", "--device", "RTX 9999"], 2)],
    "diff": [(["a.cubin"], 2), (["a.cubin", "b.cubin", "--fail-on", "moon"], 2), ([], 2)],
    "explain": [(["a.cubin", "--device", "RTX 9999"], 2), (["a.cubin"], 2), ([], 2)],
    "doctor": [(["*.none"], 2), ([], 2)],
}


def test_every_command_with_json_documents_its_failures() -> None:
    with_json = [name for name in COMMANDS if any(each.name == "as_json" for each in load_command(name).options)]
    assert with_json == [name for name in COMMANDS if load_command(name).schema]
    assert sorted(with_json) == sorted(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_the_schemas_of_a_command_take_a_failure(name: str) -> None:
    declared = load_command(name)
    for schema in (declared.schema, *(schema for schema in declared.schemas.values())):
        document = {"schema": schema, "error": {"message": "gone", "exit_code": 5}, "exit_code": 5}
        jsonschema.validate(document, json.loads(schema_text(schema.partition(".")[2].partition("/")[0])))
    assert declared.schemas.keys() <= {option.name for option in declared.options}


@pytest.mark.parametrize("name", REFUSED)
def test_a_failure_is_a_document_too(name: str, folder: Path, fatpack: Callable[..., Ran]) -> None:
    # --lint is an option of none: click refuses it before the command begins. A limit is refused on the way there.
    of_all = [(["a.cubin", "--lint"], 2), (["@gone"], 5)]
    if any("--limit" in each.opts for each in load_command(name).options):
        of_all.append((["a.cubin", "--limit", "moon=1"], 2))
    for words, code in (*REFUSED[name], *of_all):
        ran = fatpack(name, *words, "--json")
        document = json.loads(ran.out)
        kind = document["schema"].removeprefix("fatpack.").removesuffix("/1")
        assert document["schema"] == load_command(name).schema_asked([*words, "--json"])
        jsonschema.validate(document, json.loads(schema_text(kind)))
        assert (ran.code, document["exit_code"], document["error"]["exit_code"]) == (code, code, code), words
        assert list(document) == ["schema", "error", "exit_code"]
        assert document["error"]["message"] in ran.err
        plain = fatpack(name, *words)
        assert (plain.code, plain.out, plain.err) == (code, "", ran.err)


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        ("inspect --json", "fatpack.inspect/1"),
        ("inspect x --runtime --json", "fatpack.runtime/1"),
        ("inspect x --by=arch --json", "fatpack.sums/1"),
        ("inspect x --used=y --json", "fatpack.used/1"),
        ("inspect x --rows jsonl --json", "fatpack.inspect/1"),
        ("slim --verify a b --json", "fatpack.certificate/1"),
        ("check --output=json", "fatpack.check/1"),
        ("check x --output json", "fatpack.check/1"),
        ("check --output text json", ""),
        ("check --output", ""),
        ("inspect -- --json", ""),
        ("inspect --output=json", ""),  # the name of a file
        ("slim --output json", ""),
        ("inspect", ""),
    ],
)
def test_what_asks_for_json(words: str, schema: str) -> None:
    name, *rest = words.split()
    assert load_command(name).schema_asked(rest) == schema
