"""The law of locks: a holder of a lock calls only functions that end without another thread."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "fatpack"

#: Factories of locks, and their modules in the standard library.
MAKERS = {"allocate_lock", "Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event"}

#: Calls under a lock → why each ends by itself. The end of a dotted name is enough.
ALLOWED = {
    "len": "a number",
    "min": "a number",
    "list": "a copy",
    "range": "numbers",
    "get": "a dictionary",
    "pop": "a dictionary",
    "popleft": "a queue",
    "append": "a list",
    "add": "a set",
    "discard": "a set",
    "clear": "a dictionary",
    "iter": "a dictionary's",
    "next": "the first key of a dictionary",
    "notify": "a condition",
    "notify_all": "a condition",
    "wait": "a condition: it gives its lock back while it waits",
}

#: Module, function and lock → calls beyond those above, and why nothing that is waited for can need this lock.
EXCEPTIONS: dict[tuple[str, str, str], tuple[set[str], str]] = {
    ("io/source.py", "charge", "_KEEPING"): (
        {"self.budget.inflate"},
        "arithmetic under the budget's own lock, which is held over no call",
    ),
    ("limits.py", "inflate", "self._lock"): ({"self.is_inflatable"}, "a comparison of numbers"),
    ("io/ranges.py", "_between", "self._lock"): (
        {"self._end", "self._keep"},
        "arithmetic, and a dictionary of pages: bytes are fetched between the two",
    ),
    # Locks by which readers take turns. They are taken from a decompressed source to its compressed one, never back.
    ("io/inflated_buffer.py", "read", "self._lock"): (
        {"self._reach", "system.read_at", "self._spool.fileno", "self._parts"},
        "a stream has one position; what it is read from knows nothing of this window",
    ),
    ("io/inflated_buffer.py", "pieces", "self._lock"): (
        {"self._reach", "system.read_at", "self._spool.fileno", "memoryview", "bisect_right"},
        "as in read; the piece is yielded after the release",
    ),
    ("packages/members.py", "beginning", "self._lock"): ({"self._reach"}, "a stream has one position"),
    ("packages/members.py", "complete", "self._lock"): ({"self._reach"}, "a stream has one position"),
    ("packages/members.py", "read", "self._lock"): (
        {"self._reach", "bytes", "system.read_at"},
        "a stream has one position",
    ),
    ("io/ranges.py", "read_at", "self._lock"): (
        {"self._file.seek", "as_os_error", "foreign_errors", "read_from_file"},
        "a file object of a caller's has one position, and knows nothing of its source",
    ),
    ("formats/cuda_fatbin/new_entry.py", "_parts", "_ONE_READER"): (
        {"piece.pieces", "yield"},
        "outermost: no reader takes it, and who takes the pieces closes this generator",
    ),
    ("commands/map/map.py", "_run", "self._reading"): (
        {"write_for_reading", "image_pieces"},
        "outermost: no reader takes it, and programs run after the release",
    ),
}

#: Locks that are taken by ``acquire``, where they are, and why that is no block.
ACQUIRED = {
    ("io/inflated_buffer.py", "release_buffers"): "without waiting; the stream is closed after the release",
    ("concurrency/system.py", "__enter__"): "innermost: between them is one call of the system",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def locks(tree: ast.Module) -> set[str]:
    """Return the names that locks of a module have: ``_KEEPING``, ``self._lock``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
            for target, value in list(pairs):
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs += zip(target.elts, value.elts, strict=False)
            for target, value in pairs:
                if isinstance(value, ast.Call) and _name(value.func).rpartition(".")[2] in MAKERS:
                    found.add(_name(target))
    return found


def _name(node: ast.AST) -> str:
    return ast.unparse(node)


def held(tree: ast.Module) -> Iterator[tuple[str, str, ast.With]]:
    """Yield each block under a lock, with its function and the lock."""
    names = locks(tree)
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in _own(function):
                if isinstance(node, ast.With):
                    for item in node.items:
                        if _name(item.context_expr) in names:
                            yield function.name, _name(item.context_expr), node


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _own(child)


def calls(block: ast.With) -> set[str]:
    """Return the calls in a block; a yield calls the consumer of its value. Raised exceptions leave the block."""
    found = set()
    for statement in block.body:
        for node in (statement, *_own(statement)):
            if isinstance(node, ast.Call):
                found.add(_name(node.func))
            elif isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
                found.add("yield")
            elif isinstance(node, (ast.Import, ast.ImportFrom, ast.With)):
                found.add(type(node).__name__.lower())
    raised = {
        _name(node.exc.func)
        for node in _own(block)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _name(node.exc.func)[0].isupper()
    }
    return found - raised


def problems(path: str, tree: ast.Module) -> list[str]:
    found = []
    for function, lock, block in held(tree):
        known = EXCEPTIONS.get((path, function, lock), (set(), ""))[0]
        for call in sorted(calls(block) - known):
            if call.rpartition(".")[2] not in ALLOWED:
                found.append(f"{path}:{block.lineno}: {function} calls {call} while it holds {lock}")
    return found


def test_no_function_calls_out_under_a_lock() -> None:
    found = [problem for path, tree in modules() for problem in problems(path, tree)]
    assert not found, "\n".join(found)


def test_every_exception_is_one() -> None:
    trees = dict(modules())
    for path, function, lock in EXCEPTIONS:
        wanted = EXCEPTIONS[path, function, lock][0]
        blocks = [calls(block) for where, name, block in held(trees[path]) if (where, name) == (function, lock)]
        assert wanted <= set().union(*blocks), (path, function, lock, blocks)


def test_every_lock_is_taken_by_a_block() -> None:
    found = set()
    for path, tree in modules():
        names = locks(tree)
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for node in _own(function):
                    if isinstance(node, ast.Attribute) and node.attr == "acquire" and _name(node.value) in names:
                        found.add((path, function.name))
    assert found == set(ACQUIRED)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("oldest.release_buffers()", "oldest.release_buffers"),
        ("thread.join()", "thread.join"),
        ("yield 1", "yield"),
        ("import x", "import"),
        ("for a in self.b(): pass", "self.b"),
        ("kept.pop(1)", None),
        ("raise ValueError('no')", None),
    ],
)
def test_a_call_under_a_lock_is_seen(body: str, expected: str | None) -> None:
    text = f"_KEEPING = allocate_lock()\ndef keep(self):\n    with _KEEPING:\n        {body}\n"
    found = problems("io/x.py", ast.parse(text))
    assert found == ([f"io/x.py:3: keep calls {expected} while it holds _KEEPING"] if expected else [])
