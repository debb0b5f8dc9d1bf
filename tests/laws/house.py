"""The structure of the package, read from its source: top-level modules and folders, their order, and imports.

``test_imports.py`` checks the order, and ``tools/docs`` prints it into ``docs/design/architecture.md``. An import
counts if it can run: at the top of a module or inside a function. Imports below ``if TYPE_CHECKING:`` never run and do
not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "fatpack"

#: The order of top-level modules and folders, lowest first: a module imports only from its own and lower levels.
LEVELS = [
    {"errors", "literals", "magic_numbers", "printable", "record"},
    {"concurrency", "demangling", "exit_codes", "limits", "result", "strict_json", "writer_options"},
    {"io"},
    {"codecs", "model"},
    {"findings", "layout", "proof", "targets"},
    {"plugins", "text"},
    {"binary"},
    {"formats", "images", "packages"},
    {"registration"},
    {"scanner"},
    {"inputs"},
    {"distributions", "selectors", "tabular", "tensile"},
    {"edit"},
    {"command_line", "library"},
    {"commands"},
    {"testing", "tools"},
    {"main"},
    {"__main__"},
]

#: The order of the parts of a folder, lowest first; parts of one level do not import each other.
FLOORS = {
    "formats/cir": [
        {"vocabulary", "bundle_id"},
        {"text"},
        {"bytecode"},
        {"modules"},
        {"files", "verify", "byte_labels"},
        {"gpu_binary", "combine"},
        {"reader"},
        {"__init__"},
    ]
}

#: Formats that are defined in terms of another one and import it: a SYCLBIN file of version 2 is an offload binary, a
#: PE image has the header and section table of COFF.
BUILT_ON = {"formats/syclbin": "formats/offload_binary", "binary/pe": "binary/coff"}

#: Parts that do not import each other, in either direction.
STRANGERS = [("formats/cir/reader", "formats/cir/combine")]

#: command → the commands on which it is built, and whose modules it imports. No command imports another one, and none
#: gets at another one through the package itself (``fatpack.explain``): that would hide a circle.
BUILT_ON_COMMANDS = {
    "check": {"check_kpack", "doctor"},
    "convert": {"pack"},
    "doctor": {"check_kpack", "explain"},
    "edit_request": {"slim"},
    "explain": {"inspect"},
    "inspect": {"check_kpack", "pack"},
    "map": {"pack"},
    "normalize": {"inspect"},
    "remove": {"slim"},
    "report": {"inspect"},
    "split": {"explain", "slim"},
    "wrap": {"pack"},
}

#: A module with fewer code lines and a single importer in its own folder belongs into that importer.
FEWEST_LINES = 80

#: Small modules that stay (2026-11-23; this list may only shrink), with the reason.
STAYS_SMALL = {
    "binary/elf/byte_labels": "an interface function, loaded only when bytes are labelled",
    "formats/cuda_fatbin/byte_labels": "an interface function, loaded only when bytes are labelled",
    "commands/explain/tensile": "units by tables of rocBLAS, beside a module of 700 lines about units by containers",
    "commands/survey/dask_cluster": "needs dask, which is optional",
    "commands/survey/ray_cluster": "needs ray, which is optional",
}

#: name → the names that it imports
Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Module:
    """A module below ``src/fatpack``: its path without ``.py`` (``io/source``), and the modules of fatpack it imports.

    ``lines`` counts lines of code, without blank lines, comments and docstrings. ``is_table``: it defines values only,
    neither functions nor methods.
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
    """Return every module by its path, except the package itself, which only lists public names."""
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


def public_names(path: str) -> list[str]:
    """Return the names that a module takes from the package itself, except modules and its version."""
    names: list[str] = []
    for node in _running(ast.parse((ROOT / f"{path}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name == "fatpack"]
        elif isinstance(node, ast.ImportFrom) and node.module == "fatpack" and not node.level:
            names += [alias.name for alias in node.names if not _is_module(alias.name)]
    return sorted(set(names) - {"__version__"})


def _is_module(name: str) -> bool:
    return (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()


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
    """Yield a node and all nodes below it, except those below ``if TYPE_CHECKING:``."""
    yield node
    is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for child in node.orelse if is_for_checkers else ast.iter_child_nodes(node):
        yield from _running(child)


def _code_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines with code; docstrings are no code."""
    texts: set[int] = set()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            texts |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.alias)):
            lines |= {node.lineno, node.end_lineno or node.lineno}
    return lines - texts


def small_modules(every: Mapping[str, Module]) -> list[tuple[str, str]]:
    """Return (module, its importer) for each small module with a single importer, which is in the same folder.

    Interfaces (``__init__``) and tables may be small.
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
    """Return the path of the module with a dotted name; "" if there is none."""
    path = "/".join(part for part in parts if part)
    return next((name for name in (path, f"{path}/__init__".lstrip("/")) if name in files), "")


def parts_of(folder: str, every: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the imports between the modules and folders in a folder, each folder taken as one."""
    inside = [module for module in every.values() if module.path.startswith(f"{folder}/")]
    graph: dict[str, set[str]] = {part(folder, module.path): set() for module in inside}
    for module in inside:
        here = part(folder, module.path)
        graph[here] |= {part(folder, name) for name in module.imports if name.startswith(f"{folder}/")} - {here}
    return graph


def part(folder: str, path: str) -> str:
    """Return the module or folder in a folder that a path belongs to: ``formats/cir`` in ``formats``."""
    return f"{folder}/{path[len(folder) + 1 :].partition('/')[0]}"


def folders(every: Mapping[str, Module]) -> list[str]:
    """Return every folder below ``src/fatpack``."""
    return sorted({module.folder for module in every.values()} - {""})


def circle(graph: Graph) -> list[str]:
    """Return a shortest circle of a graph, with its first name repeated at the end; an empty list if there is none."""
    circles = (found for start in sorted(graph) if (found := _way_back(graph, start)))
    return min(circles, key=len, default=[])


def _way_back(graph: Graph, start: str) -> list[str]:
    """Return the shortest path from a name to itself."""
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
    """Return the names of a graph in topological order, imported names first; circles are cut."""
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
    """Return the last component of each path, for a sentence that has named their folder."""
    return [path.rpartition("/")[2] for path in parts]


def arrows(way: list[str], every: Mapping[str, Module]) -> list[str]:
    """Return, for each step of a path from part to part, the imports between modules."""
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
