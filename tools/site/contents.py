"""The order of the site's pages. A page that is missing here ends the build with an error of Sphinx."""

from __future__ import annotations

from pathlib import Path

#: The page that opens first.
START = "docs/index"

#: Pages outside of ``docs/``.
TOP = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "examples/toybox/README")

#: part of the site → its pages, relative to the repository; a name that ends with ``/*`` means a folder
PARTS = {
    "Start": ("docs/tutorial", "README", "docs/install"),
    "For compiler engineers": (
        "docs/how-to/cir-multi-arch",
        "docs/how-to/missing-kernel",
        "docs/how-to/compare-two-compilers",
        "docs/how-to/replace-one-image",
        "docs/how-to/compile-what-is-in-a-file",
        "docs/how-to/device-link",
        "docs/how-to/wrap-without-a-compiler",
        "docs/how-to/kernel-caches",
        "docs/how-to/put-in-place",
    ),
    "For packagers": (
        "docs/how-to/slim-a-wheel",
        "docs/how-to/ship-variants",
        "docs/how-to/split-conda-packages",
        "docs/how-to/slim-a-library",
        "docs/how-to/slim-an-environment",
        "docs/how-to/slim-by-policy",
        "docs/how-to/slim-by-use-or-size",
        "docs/how-to/slim-a-container-image",
        "docs/how-to/compare-two-releases",
        "docs/how-to/report-a-wheel",
        "docs/how-to/look-into-packages",
        "docs/how-to/check-kpack",
    ),
    "For CI, and for users' reports": (
        "docs/how-to/fail-a-build",
        "docs/how-to/gates/*",
        "docs/how-to/what-an-installer-takes",
        "docs/how-to/no-kernel-image",
        "docs/how-to/verify-a-file",
        "docs/how-to/reproducible-builds",
    ),
    "For authors of tools": (
        "docs/how-to/use-the-library",
        "docs/library",
        "docs/rows",
        "docs/how-to/read-from-anywhere",
        "docs/how-to/survey",
        "docs/plug-ins",
        "examples/toybox/README",
    ),
    "Reference": (
        "docs/cli",
        "docs/commands",
        "docs/reference",
        "docs/findings",
        "docs/targets",
        "docs/kernels",
        "docs/dead-code",
        "docs/stability",
    ),
    "In place of other tools": ("docs/tools", "docs/tools/*"),
    "Formats": ("docs/formats/*",),
    "Hosts": ("docs/hosts/*",),
    "Packages": ("docs/packages/*",),
    "How it is made": ("docs/design/*", "docs/testing", "docs/corpus", "docs/benchmarks"),
    "Project": ("CONTRIBUTING", "SECURITY", "CHANGELOG"),
}


def trees(root: Path) -> str:
    """Return the order of pages as directives that Sphinx reads, for a repository at ``root``."""
    return "".join(_tree(part, pages, root) for part, pages in PARTS.items())


def _tree(part: str, pages: tuple[str, ...], root: Path) -> str:
    lines = [_titled(name) for page in pages for name in names(page, root)]
    return "\n".join(["\n```{toctree}", ":hidden:", f":caption: {part}", "", *lines, "```\n"])


def _titled(name: str) -> str:
    """Return a page in the form of a directive. README's own title is the site's."""
    return f"What it is </{name}>" if name == "README" else f"/{name}"


def names(page: str, root: Path) -> list[str]:
    """Return a page by its name, or all of a folder."""
    if not page.endswith("/*"):
        return [page]
    folder = root / page.removesuffix("/*")
    return [str(path.relative_to(root).with_suffix("")) for path in sorted(folder.glob("*.md"))]
