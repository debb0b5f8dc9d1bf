"""``fatpack slim --find-links``: wheels that a lock names, slimmed into a folder that pip and uv install from."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
from tests.builders import wheels as build
from tests.builders.fatbin import of_words

import fatpack as library
from fatpack.commands.slim import wheelhouse
from fatpack.errors import UsageError
from fatpack.main import main

DEMO, PLAIN, SDIST = "demo-1.5-py3-none-any.whl", "plain_thing-2.0+cu13-py3-none-any.whl", "old-0.1.tar.gz"
SLIM = "demo-1.5-1sm90-py3-none-any.whl"
BOTH = of_words("80 90")


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    folder = tmp_path / "downloads"
    folder.mkdir()
    metadata = build.METADATA.replace(b"Summary", b"Requires-Python: >=3.8,<4\nSummary")
    demo = build.files_of({"demo/__init__.py": b"", "demo/a.fatbin": BOTH}, metadata=metadata)
    (folder / DEMO).write_bytes(build.packed(demo))
    plain = build.METADATA.replace(b"demo", b"plain-thing").replace(b"1.5", b"2.0+cu13")
    files = build.files_of({"plain.py": b""}, info="plain_thing-2.0+cu13.dist-info", metadata=plain)
    (folder / PLAIN).write_bytes(build.packed(files))
    (folder / SDIST).write_bytes(b"an sdist")
    (folder / "notes.txt").write_bytes(b"neither")
    return folder


def slim(folder: Path, *more: str) -> int:
    return main(["slim", "--find-links", str(folder), "--for", "sm_90", "--quiet", *more])


def into(folder: Path) -> tuple[Path, list[str]]:
    out = folder.parent / "wheelhouse"
    return out, ["-d", str(out)]


def names(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


class Links(HTMLParser):
    """The links of a page, as an installer reads them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def test_every_wheel_of_the_folder_is_in_the_index(downloads: Path) -> None:
    out, to = into(downloads)
    assert slim(downloads, *to) == 0
    assert names(out) == [SLIM, SDIST, PLAIN, "simple"]
    for name in (SDIST, PLAIN):
        assert (out / name).read_bytes() == (downloads / name).read_bytes()
    with library.open(out / SLIM, member="demo/a.fatbin") as file:
        assert [image.target.arch for found in file.containers for image in found.images] == ["sm_90"]
    root = Links((out / "simple/index.html").read_text()).found
    assert [one["href"] for one in root] == ["demo/", "old/", "plain-thing/"]
    for project, name in (("demo", SLIM), ("old", SDIST), ("plain-thing", PLAIN)):
        (link,) = Links((out / "simple" / project / "index.html").read_text()).found
        url, _, digest = urljoin(f"https://host/simple/{project}/", link["href"]).partition("#")
        assert unquote(url) == f"https://host/{name}"
        assert digest == f"sha256={build.hexadecimal((out / name).read_bytes())}"
        assert link.get("data-requires-python") == (">=3.8,<4" if name == SLIM else None)
        document = json.loads((out / "simple" / project / "index.json").read_text())
        (one,) = document["files"]
        assert document["name"] == project and document["meta"]["api-version"] == "1.1"
        assert (one["filename"], one["size"]) == (name, (out / name).stat().st_size)
        assert one["hashes"]["sha256"] == digest.removeprefix("sha256=")
        assert urljoin(f"https://host/simple/{project}/", one["url"]) == url


def test_a_lock_chooses_and_gets_new_digests(downloads: Path) -> None:
    lock = downloads.parent / "requirements.lock"
    digest = build.hexadecimal((downloads / DEMO).read_bytes())
    lock.write_text(
        "--index-url https://host/simple\n# a comment\n"
        f"Demo[all]==1.5 ; python_version > '3' \\\n    --hash=sha256:{'0' * 64} \\\n"
        f"    --hash=sha256:{digest}  # why\n"
        "absent==1 ; sys_platform == 'no such system'\n"
    )
    out, to = into(downloads)
    assert slim(downloads, "-r", str(lock), *to) == 0
    assert names(out) == [SLIM, "requirements.txt", "simple"]
    new = build.hexadecimal((out / SLIM).read_bytes())
    text = (out / "requirements.txt").read_text()
    assert text.splitlines()[1:] == [
        'demo[all]==1.5 ; python_version > "3" \\',
        f"    --hash=sha256:{new}",
    ]
    assert slim(downloads, "-r", str(out / "requirements.txt"), "-d", str(out.parent / "again")) == 2


def test_a_local_version_is_in_the_new_lock(downloads: Path) -> None:
    lock = downloads.parent / "requirements.lock"
    lock.write_text("demo>=1\nplain-thing==2.0+cu13\n")
    out, to = into(downloads)
    assert slim(downloads, "-r", str(lock), *to, "--local-version", "sm90") == 0
    text = (out / "requirements.txt").read_text()
    assert re.findall(r"^\S+==\S+", text, re.MULTILINE) == ["demo==1.5+sm90", "plain-thing==2.0+cu13"]


@pytest.mark.parametrize("form", ["pylock.toml", "uv.lock"])
def test_locks_in_toml(downloads: Path, form: str) -> None:
    digest = build.hexadecimal((downloads / DEMO).read_bytes())
    url = f"https://host/{DEMO}"
    lock = downloads.parent / form
    if form == "uv.lock":
        lock.write_text(
            'version = 1\n[[package]]\nname = "demo"\nversion = "1.5"\n'
            f'wheels = [{{url = "{url}", hash = "sha256:{digest}"}}]\n'
            '[[package]]\nname = "mine"\nversion = "0.1"\nsource = {editable = "."}\n'
        )
    else:
        lock.write_text(
            'lock-version = "1.0"\ncreated-by = "test"\n[[packages]]\nname = "demo"\nversion = "1.5"\n'
            f'wheels = [{{url = "{url}", hashes = {{sha256 = "{digest}"}}}}]\n'
        )
    out, to = into(downloads)
    assert slim(downloads, "-r", str(lock), *to) == 0
    assert names(out) == [SLIM, "requirements.txt", "simple"]
    lock.write_text(lock.read_text().replace(digest, "0" * 64))
    with pytest.raises(UsageError, match="another SHA-256"):
        wheelhouse.choose_distributions(str(downloads), wheelhouse.read_lock(str(lock)))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("missing==1", "has no file of missing==1"),
        ("demo==1.6", "has no file of demo==1.6"),
        (f"demo==1.5 --hash=sha256:{'0' * 64}", "another SHA-256"),
        ("-r other.txt", "is not followed"),
        ("demo = 1", "is no requirement"),
    ],
)
def test_a_lock_that_the_folder_does_not_fulfil(
    downloads: Path, line: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = downloads.parent / "requirements.lock"
    lock.write_text(f"plain-thing\n{line}\n")
    out, to = into(downloads)
    assert slim(downloads, "-r", str(lock), *to) == 2
    error = capsys.readouterr().err
    assert f"{lock}:2: " in error and problem in error
    assert not out.exists()


def test_a_wheel_that_cannot_be_changed_is_copied(downloads: Path) -> None:
    broken = build.files_of({"demo/a.fatbin": BOTH})
    broken["demo-1.5.dist-info/RECORD"] = broken["demo-1.5.dist-info/RECORD"].replace(b"sha256=", b"sha256=x", 1)
    (downloads / DEMO).write_bytes(build.packed(broken))
    out, to = into(downloads)
    assert slim(downloads, *to) == 3
    assert names(out) == [DEMO, SDIST, PLAIN, "simple"]
    assert (out / DEMO).read_bytes() == (downloads / DEMO).read_bytes()
    assert slim(downloads, "-d", str(out.parent / "strict"), "--strict") == 3
    assert names(out.parent / "strict") == [SDIST, PLAIN, "simple"]


def test_a_dry_run_writes_nothing(downloads: Path) -> None:
    out, to = into(downloads)
    assert slim(downloads, "--dry-run") == slim(downloads, "--dry-run", *to) == 0
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "needs a place"),
        ("x.whl -d out", "--find-links names all wheels"),
        ("-d out --in-place", "--in-place does nothing"),
        ("-d out --sbom x.json", "--sbom does nothing"),
        ("-d {}", "has the old wheels"),
    ],
)
def test_options_that_do_nothing_are_errors(
    downloads: Path, words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slim(downloads, *words.format(downloads).split()) == 2
    assert problem in capsys.readouterr().err


def test_a_lock_needs_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", "-r", "x.lock", "--for", "sm_90", "-d", str(tmp_path / "out")]) == 2
    assert "pip download -r x.lock -d DIR" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert slim(tmp_path / "empty", "-d", str(tmp_path / "out")) == 2
    assert "has no wheels" in capsys.readouterr().err
