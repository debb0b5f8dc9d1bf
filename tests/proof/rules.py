"""The rules of the proof: the calls in ``fatpack.proof`` that record a difference, and those that reject a forgery."""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tests.builders.container_images import write_folder

import fatpack.proof
from fatpack.io.source import BytesSource, View
from fatpack.proof import ledger
from fatpack.proof.ledger import DifferenceLog, ProofResult
from fatpack.proof.packages import folders, prove_package
from fatpack.proof.packages.container_images import prove_image
from fatpack.proof.packages.verdict import PackageProofResult

ROOT = Path(fatpack.proof.__file__).parent

#: Functions of the ledger that record a difference for their caller: the rule is the caller's.
RECORDERS = ("differ", "same", "compare_views")

#: Functions that compare for a decision, in a log of their own.
DECIDING = ("_is_same",)


class Rule(NamedTuple):
    """A rule: the module, the function, the name of the difference as it is written, and the line of the call."""

    module: str
    function: str
    what: str
    line: int

    @property
    def label(self) -> str:
        return f"{self.module}: {self.function}: {self.what}"


@cache
def all_rules() -> dict[str, list[Rule]]:
    """Return the rules of each module, in the order of their lines."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT).with_suffix("").as_posix()
        tree = ast.parse(path.read_text())
        rules = [
            Rule(module, function.name, ast.unparse(call.args[0]), call.lineno)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef) and function.name not in (*RECORDERS, *DECIDING)
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and _name(call) in RECORDERS
        ]
        found[module] = sorted(rules, key=lambda rule: rule.line)
    return found


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _caller() -> Rule:
    """Return the rule whose call records a difference now."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == ledger.__file__ and frame.f_code.co_name in RECORDERS:
        assert frame.f_back is not None
        frame = frame.f_back
    module = Path(frame.f_code.co_filename).relative_to(ROOT).with_suffix("").as_posix()
    return [rule for rule in all_rules()[module] if rule.line <= frame.f_lineno][-1]


def rejected_by(before: bytes, after: bytes) -> set[Rule]:
    """Return the rules by which a program or package is not proved: those of its own log, not of libraries in it."""
    return _recorded(fatpack.proof.prove, _views(before, after))


def package_rejected_by(before: bytes, after: bytes) -> set[Rule]:
    """Return the same for wheels and conda packages."""
    return _recorded(prove_package, _views(before, after))


def _views(before: bytes, after: bytes) -> list[View]:
    # A wheel with a label has it in its name.
    return [BytesSource(before, "before").view(), BytesSource(after, "after-sm90.whl").view()]


def image_rejected_by(before: Mapping[str, bytes] | bytes, after: Mapping[str, bytes] | bytes) -> set[Rule]:
    """Return the same for container images, which are archives or the files of layouts, and for folders of files."""
    with tempfile.TemporaryDirectory() as scratch:
        given = [
            BytesSource(image, name).view()
            if isinstance(image, bytes)
            else str(write_folder(image, Path(scratch) / name))
            for name, image in (("before", before), ("after", after))
        ]
        is_image = isinstance(before, bytes) or not {"oci-layout", "manifest.json"}.isdisjoint(before)
        # LIMIT: a database of 256 MB would take seconds.
        with patch.object(folders, "_DATABASE", 1000):
            return _recorded(prove_image if is_image else folders.prove_folder, given)


def _recorded(prove: Callable[..., ProofResult | PackageProofResult], given: Sequence[object]) -> set[Rule]:
    logs: list[DifferenceLog] = []
    found: set[Rule] = set()
    record = DifferenceLog.differ
    start = DifferenceLog.__init__

    def begun(self: DifferenceLog) -> None:
        logs.append(self)
        start(self)

    def recorded(self: DifferenceLog, what: str, **facts: object) -> None:
        if self is logs[0]:
            found.add(_caller())
        record(self, what, **facts)  # type: ignore[arg-type]

    with patch.object(DifferenceLog, "__init__", begun), patch.object(DifferenceLog, "differ", recorded):
        verdict = prove(*given)
    assert verdict.is_proved == (not found)
    return found
