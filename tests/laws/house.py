"""The house as its source shows it: rooms and their order, folders, and who imports whom.

The laws of imports (``test_imports.py``) hold what stands here, and ``tools/docs`` prints it into
``docs/design/architecture.md``. An import counts if it can run: at the top of a module or inside a function. One below
``if TYPE_CHECKING:`` is for annotations, never runs, and does not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "fatpack"

#: The order of the rooms, lowest first: a module imports only from its own room and from levels below it.
LEVELS = [
    {"errors", "literals", "magic_numbers", "printable", "record"},
    {"concurrency", "demangling", "exit_codes", "limits", "options", "result"},
    {"io"},
    {"codecs", "model"},
    {"findings", "layout", "proof", "targets"},
    {"plugins", "text"},
    {"binary"},
    {"formats", "images", "packages"},
    {"registration"},
    {"scanner"},
    {"inputs"},
    {"selectors", "tabular"},
    {"edit"},
    {"command_line", "library"},
    {"commands"},
    {"testing", "tools"},
    {"main"},
    {"__main__"},
]

#: The order of the parts inside a room, lowest first: as in LEVELS, but those of one line do not know each other.
FLOORS = {
    "formats/cir": [
        {"words", "bundle_id", "expressions"},
        {"text"},
        {"bytecode"},
        {"modules"},
        {"files"},
        {"rules"},
        {"gpu_binary", "combine"},
        {"container"},
        {"__init__"},
    ]
}

#: Formats that are defined in terms of another one, which they know: a SYCLBIN file of version 2 is an offload binary.
BUILT_ON = {"formats/syclbin": "formats/offload_binary"}

#: Parts that do not know each other, whichever of them stands higher.
STRANGERS = [("formats/cir/container", "formats/cir/combine")]

#: Code lines from which a module stands for itself, though a single module beside it imports it.
FEWEST_LINES = 80

#: Whether the law of small modules holds. It is turned on when the last of them has moved in with its importer.
SMALL_MODULES_MOVE_IN = False

#: A graph of names: each with those it imports.
Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Module:
    """A module below ``src/fatpack``: its path without ``.py`` (``io/source``), and what it imports of fatpack.

    ``lines`` are its lines of code: neither empty, nor comment, nor docstring. ``is_table`` says that it defines
    neither functions nor classes with methods, only values.
    """

    path: str
    imports: frozenset[str]
    docstring: str
    lines: int
    is_table: bool

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def room(self) -> str:
        return self.path.partition("/")[0]


def modules(root: Path = ROOT) -> dict[str, Module]:
    """Return every module by its path; the package itself, which only names what the library offers, is left out."""
    files = {file.relative_to(root).with_suffix("").as_posix(): file for file in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(file.read_text(encoding="utf-8")) for path, file in files.items()}
    return {
        path: Module(
            path,
            frozenset(_imported(tree, files)) - {path, "__init__"},
            ast.get_docstring(tree) or "",
            len(_code_lines(tree)),
            not any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(tree)),
        )
        for path, tree in trees.items()
        if path != "__init__"
    }


def _imported(tree: ast.Module, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a module imports; ``from fatpack.io import limits`` imports ``io/limits``."""
    for node in _running(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            package, *inner = module.split(".")
            if package == "fatpack":
                yield _module([*inner, name], files) or _module(inner, files) or "/".join(inner)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, without what stands below ``if TYPE_CHECKING:``."""
    yield node
    is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for child in node.orelse if is_for_checkers else ast.iter_child_nodes(node):
        yield from _running(child)


def _code_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that have code; docstrings and other bare texts are none."""
    texts: set[int] = set()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            texts |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.alias)):
            lines |= {node.lineno, node.end_lineno or node.lineno}
    return lines - texts


def small_modules(every: Mapping[str, Module]) -> list[tuple[str, str]]:
    """Return (module, its importer) for each small module that a single module imports, one of the same folder.

    Interfaces (``__init__``) and tables are none of them.
    """
    importers: dict[str, set[str]] = {}
    for module in every.values():
        for name in module.imports:
            importers.setdefault(name, set()).add(module.path)
    return [
        (path, importer)
        for path, (importer, *others) in sorted((path, sorted(by)) for path, by in importers.items())
        if path in every
        and not others
        and every[path].lines < FEWEST_LINES
        and every[path].folder == every[importer].folder
        and not path.endswith("/__init__")
        and not every[path].is_table
    ]


def _module(parts: list[str], files: Mapping[str, Path]) -> str:
    """Return the path of the module that a dotted name means, if it is one."""
    path = "/".join(part for part in parts if part)
    return next((name for name in (path, f"{path}/__init__".lstrip("/")) if name in files), "")


def parts_of(folder: str, every: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the graph of what lies in a folder, modules and folders, each folder taken as one."""
    inside = [module for module in every.values() if module.path.startswith(f"{folder}/")]
    graph: dict[str, set[str]] = {part(folder, module.path): set() for module in inside}
    for module in inside:
        here = part(folder, module.path)
        graph[here] |= {part(folder, name) for name in module.imports if name.startswith(f"{folder}/")} - {here}
    return graph


def part(folder: str, path: str) -> str:
    """Return the part of a folder that a path below it belongs to: ``formats/cir`` in ``formats``."""
    return f"{folder}/{path[len(folder) + 1 :].partition('/')[0]}"


def folders(every: Mapping[str, Module]) -> list[str]:
    """Return every folder below ``src/fatpack``."""
    return sorted({module.folder for module in every.values()} - {""})


def circle(graph: Graph) -> list[str]:
    """Return a shortest circle of a graph, its first name repeated at the end; nothing if there is none."""
    circles = (found for start in sorted(graph) if (found := _way_back(graph, start)))
    return min(circles, key=len, default=[])


def _way_back(graph: Graph, start: str) -> list[str]:
    """Return the shortest way from a name to itself."""
    ways, reached = [[start]], {start}
    for way in ways:
        for name in sorted(graph.get(way[-1], ())):
            if name == start:
                return [*way, start]
            if name not in reached:
                reached.add(name)
                ways.append([*way, name])
    return []


def lowest_first(graph: Graph) -> list[str]:
    """Return the names of a graph in an order in which each imports only from those before it; circles are cut."""
    order: list[str] = []
    visited: set[str] = set()

    def visit(name: str) -> None:
        visited.add(name)
        for lower in sorted(graph[name] & graph.keys()):
            if lower not in visited:
                visit(lower)
        order.append(name)

    for name in sorted(graph):
        if name not in visited:
            visit(name)
    return order


def names(parts: Iterable[str]) -> list[str]:
    """Return the last name of each part, for a sentence that has named their folder."""
    return [path.rpartition("/")[2] for path in parts]


def arrows(way: list[str], every: Mapping[str, Module]) -> list[str]:
    """Return, for each step of a way from part to part, which module imports which."""
    steps = list(pairwise(way))
    return [
        f"  {module.path}.py imports {name}.py"
        for here, there in steps
        for module in every.values()
        if _is_in(module.path, here)
        for name in sorted(module.imports)
        if _is_in(name, there)
    ]


def _is_in(path: str, part_of_a_folder: str) -> bool:
    return path == part_of_a_folder or path.startswith(f"{part_of_a_folder}/")
