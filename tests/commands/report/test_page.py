"""The page is well formed, loads nothing, and shows hostile names as text."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.report import byte_regions
from fatpack.commands.report.byte_regions import ByteRegion, FileRegions, file_regions
from fatpack.commands.report.cost_picture import draw_costs
from fatpack.commands.report.markdown import escape_markdown, markdown_code, render_markdown
from fatpack.commands.report.model import ReportResult
from fatpack.commands.report.overview import build_overview
from fatpack.commands.report.page import render_page
from fatpack.commands.report.pictures import FAMILIES, draw_byte_grid, draw_coverage, standalone_svg
from fatpack.commands.report.treemap import draw_treemap
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.model import Label
from fatpack.tabular.columns import ImageRow, KernelRow

HOSTILE = [
    "<script>alert(1)</script>",
    "\"' onload=alert(1) x='",
    "</title></style></svg><img src=http://example.invalid/x>",
    "\u202egnp.exe\u2066",
    "\x00\x07\x1b]0;owned\x07\ufffe\ud800",
    "-->]]><!--<![CDATA[",
    "a\nb\r\nc",
    "שלום",
    "javascript:alert(1)",
    "|x|`y`[z](http://example.invalid)",
    "n" * 5000,
]

EMPTY = {"meta", "input", "br", "link"}


class Strict(HTMLParser):
    """Reads a page, and fails where an element is not closed, or is not one that pages have."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), "an attribute stands twice"
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def hostile_overview() -> ReportResult:
    rows: list[ImageRow | KernelRow] = []
    for number, text in enumerate(HOSTILE):
        for arch in ("sm_90", text):
            place = {"path": f"{text}/{text}", "arch": arch, "triple": text, "offload": text, "member": text}
            place |= {"position": f"0.{number}", "container_format": text, "section": text}
            more = {"size": 1000, "stored_size": 100, "containers": 0, "sha256": "aa", "compression": text}
            rows.append(ImageRow(row="image", form=text, findings=(text,), **place, **more))
            names = [text, f"{text}{number}", *(f"k{n}{text}" for n in range(5))]
            rows += [
                KernelRow(row="kernel", form=text, kernel=name, code_size=50, **place)
                for name in names[: 7 - number % 2]
            ]
        rows.append(ImageRow(row="file", path=f"{text}/{text}", error=text, host=text, exit_code=3, findings=(text,)))
    return build_overview(rows)


def hostile_map() -> FileRegions:
    parts = [ByteRegion(n * 10, 10, text, text, text, "field", 1, text, text) for n, text in enumerate(HOSTILE)]
    return FileRegions(HOSTILE[0], 10 * len(parts), "fields", tuple(parts), len(parts), tuple(parts))


@pytest.fixture(scope="module")
def hostile() -> str:
    return "".join(render_page(hostile_overview(), HOSTILE, hostile_map(), "0"))


def test_hostile_names_are_text_and_nothing_else(hostile: str) -> None:
    read = Strict(hostile)
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert not [
        tag for tag, _ in read.tags if tag in ("img", "iframe", "object", "embed", "link", "form", "image", "use")
    ]
    for _, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style")]
        target = attributes.get("href") or "#"
        assert target.startswith("#"), "links stay on the page"
    shown = "".join(read.texts)
    assert "<script>alert(1)</script>" in shown
    assert "\\u202egnp.exe\\u2066" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", hostile)
    hostile.encode()


def test_the_policy_allows_this_style_and_this_script_alone(hostile: str) -> None:
    read = Strict(hostile)
    (policy,) = [found["content"] for tag, found in read.tags if found.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", hostile, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "url(" not in hostile and "@import" not in hostile


def test_pictures_of_hostile_names_are_xml() -> None:
    overview = hostile_overview()
    pictures = [draw_treemap(overview, is_stored=True), draw_treemap(overview, is_stored=False)]
    pictures += [draw_coverage(overview), draw_byte_grid(hostile_map()), draw_costs(overview)]
    for picture in pictures:
        assert picture is not None
        root = ET.fromstring(standalone_svg(picture, FAMILIES).encode())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert {node.tag.rpartition("}")[2] for node in root.iter()} <= {
            "svg",
            "style",
            "g",
            "title",
            "rect",
            "path",
            "text",
        }


class AsGitHub(HTMLParser):
    """The HTML of GitHub's own renderer: elements, rows of tables, and text that is not in ``code``."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[int] = []
        self.open: list[str] = []
        self.plain: list[str] = []
        self.coded: list[str] = []
        renderer = reference.package("cmarkgfm")
        options = reference.package("cmarkgfm.cmark").Options
        self.feed(renderer.github_flavored_markdown_to_html(text, options=options.CMARK_OPT_UNSAFE))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append(0)
        self.rows[-1:] = [count + (tag in ("td", "th")) for count in self.rows[-1:]]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.coded if "code" in self.open else self.plain).append(data)


@pytest.mark.reference
def test_markdown_of_hostile_names_is_names_and_tables_to_github() -> None:
    overview = hostile_overview()
    text = render_markdown(overview, [HOSTILE[0]])
    read = AsGitHub(text)
    allowed = "h3 h4 p strong em ul li table thead tbody tr th td code details summary"
    assert read.tags <= {*allowed.split()}
    lines = [line for line in text.splitlines() if line.startswith("|") and not set(line) <= set("|-:")]
    assert len(read.rows) == len(lines), "every row is one"
    shown = "".join(read.coded)
    assert "<script>alert(1)</script>/<script>alert(1)</script>" in shown
    assert "|x|`y`[z](http://example.invalid)" in shown
    plain = "".join(read.plain)
    assert not re.search(r"(?:^|\W)[@#]\w|://\w|www\.", plain), "a mention, an issue or a link"
    assert len(text) < 65_536, "a comment on GitHub has room for it"


@pytest.mark.reference
@pytest.mark.parametrize(
    "name", ["@octocat", "#12", "https://example.invalid", "www.example.invalid", "a|b", "`", "``a"]
)
def test_a_name_is_one_piece_of_code_to_github(name: str) -> None:
    table = AsGitHub(f"| a | b |\n|---|---|\n| {markdown_code(name)} | {escape_markdown(name)} |\n")
    assert table.rows == [2, 2] and table.coded == [name]
    assert not table.tags & {"a", "em", "strong", "img"}
    text = "".join(table.plain).split("\n")
    assert name in "".join(text).replace("\u200b", "")
    assert not re.search(r"(?:^|\W)[@#]\w|://\w|www\.", "".join(text))


def test_a_name_of_a_million_characters_is_cut_and_counted() -> None:
    long = "_Z" + "n" * 1_000_000
    rows: list[ImageRow | KernelRow] = []
    for position in ("0.0", "0.1"):
        place = {"path": "lib.so", "arch": "sm_90" + "a" * 100_000, "form": "cubin", "position": position}
        rows.append(ImageRow(row="image", size=900, stored_size=9, containers=0, member=long, sha256="a", **place))
        rows.append(KernelRow(row="kernel", kernel=long, code_size=500, code_sha256="b", **place))
    rows.append(ImageRow(row="file", path="lib.so", exit_code=0, file_size=900, searched="places"))
    overview = build_overview(rows)
    region = ByteRegion(0, 10, long, long, long, "field", 1, "sm_90", "sm9")
    map = FileRegions("lib.so", 10, "fields", (region,), 1, (region,))
    text = "".join(render_page(overview, ["lib.so"], map, "0"))
    Strict(text)
    assert len(text) < 100_000
    assert "(1,000,002 characters)" in text
    assert len(render_markdown(overview, ["lib.so"])) < 10_000
    for picture in (draw_treemap(overview, is_stored=True), draw_coverage(overview), draw_byte_grid(map)):
        assert picture is not None and len(picture) < 10_000


def test_a_page_of_nothing_says_so() -> None:
    overview = build_overview([ImageRow(row="file", path="a.txt", exit_code=0, file_size=3)])
    read = Strict("".join(render_page(overview, ["a.txt"], None, "0")))
    assert "No device code was found." in read.texts


@pytest.mark.parametrize("name", ["cuda_fatbin/recorded/v130_none.fatbin", "elf/clang-22-openmp-gfx90a.o"])
def test_regions_cover_each_byte_once(name: str) -> None:
    with open_source(str(FIXTURES / name)) as source:
        found = file_regions(source.view(), {})
    at = 0
    for region in found.regions:
        assert region.start == at
        at += region.size
    assert at == found.size == (FIXTURES / name).stat().st_size
    assert found.level == "fields" or found.labels > byte_regions.MAX_REGIONS


def test_a_large_file_has_coarser_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    path = FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin"
    monkeypatch.setattr(byte_regions, "MAX_REGIONS", 12)
    with open_source(str(path)) as source:
        found = file_regions(source.view(), {})
    assert found.level != "fields"
    assert len(found.regions) <= 12
    assert sum(region.size for region in found.regions) == found.size


def test_regions_beyond_every_level_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Label(Span(n, n + 1, ("x",)), f"part {n}") for n in range(100)]
    monkeypatch.setattr(byte_regions, "MAX_REGIONS", 12)
    monkeypatch.setattr(byte_regions, "file_labels", lambda view: made)
    path = FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin"
    with open_source(str(path)) as source:
        found = file_regions(source.view(), {})
        assert sum(region.size for region in found.regions) == len(source.view())
    assert len(found.regions) == 13


def test_write_report_returns_what_it_says(tmp_path: object) -> None:
    path = FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin"
    target = f"{tmp_path}/report.html"
    overview = fatpack.write_report([path], target)
    with open(target, encoding="utf-8") as file:
        Strict(file.read())
    assert overview.image_count == 2
    with pytest.raises(FileExistsError):
        fatpack.write_report([path], target)
    with pytest.raises(fatpack.UsageError, match="input"):
        fatpack.write_report([target], target, overwrite=True)
    with pytest.raises(fatpack.UsageError, match="kind"):
        fatpack.write_report([path], target, kind="pdf", overwrite=True)
    assert fatpack.write_report(str(path), target, overwrite=True) == overview
    with pytest.raises(TypeError):
        fatpack.write_report(path.read_bytes(), target, overwrite=True)  # type: ignore[arg-type]
