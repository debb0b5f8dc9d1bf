"""Plug-ins: an example that holds the laws, and all that may be wrong with one, which breaks no command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.binary import CodeSection
from fatpack.errors import FormatError
from fatpack.io.source import BytesSource, Span
from fatpack.model import Container, Finding, Image, Label, Target, lazy_image
from fatpack.plugins import CheckedPlugin, problems

EXAMPLE = Path(__file__).parents[1] / "examples" / "toybox"
BOX, CHEST = (EXAMPLE / "tests" / "fixtures" / name for name in ("two.toybox", "one.toychest"))
Done: TypeAlias = "subprocess.CompletedProcess[str]"
OBJECT = FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"


def install(folder: Path, points: dict[str, str], modules: dict[str, str] | None = None, name: str = "other") -> Path:
    """Lay down a package as pip does: entry points ("group:name" → module) and modules by name."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    stated = [f"[{key.partition(':')[0]}]\n{key.partition(':')[2]} = {module}\n" for key, module in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(stated))
    for module, text in (modules or {}).items():
        (folder / f"{module}.py").write_text(text)
    return folder


@pytest.fixture
def toybox(tmp_path: Path) -> Path:
    """Return a folder in which the example is installed."""
    folder = tmp_path / "installed"
    points = {"fatpack.formats:toybox": "toybox.container", "fatpack.binary:toychest": "toybox.chest"}
    install(folder, points, name="toybox")
    shutil.copytree(EXAMPLE / "src" / "toybox", folder / "toybox")
    return folder


def fatpack(
    folder: Path, *words: object, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join([str(folder), str(Path(__file__).parents[1] / "src")])
    variables = {**os.environ, "PYTHONPATH": search, **(environment or {})}
    command = [sys.executable, "-m", "fatpack", *map(str, words)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def found(folder: Path, file: Path) -> list[tuple[str, int]]:
    """Return format and number of images of each container that ``inspect`` lists."""
    done = fatpack(folder, "inspect", "--json", file)
    (record,) = json.loads(done.stdout)["files"]
    return [(each["format"], len(each["images"])) for each in record["containers"]]


@pytest.mark.parametrize("file", [BOX, CHEST], ids=lambda path: path.name)
def test_containers_and_hosts_of_plugins_are_listed(toybox: Path, tmp_path: Path, file: Path) -> None:
    assert found(toybox, file) == [("toybox", 2)]
    assert found(tmp_path, file) == []


def test_images_of_plugins_are_extracted(toybox: Path, tmp_path: Path) -> None:
    done = fatpack(toybox, "extract", CHEST, "--arch", "sm_80", "-o", tmp_path / "image")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "image").read_bytes() == b"first image"


def test_containers_of_plugins_are_found_in_sections_of_any_name(toybox: Path, tmp_path: Path) -> None:
    copy = tmp_path / "fat.o"
    command = ["objcopy", f"--add-section=.toys={BOX}", str(OBJECT), str(copy)]
    if shutil.which("objcopy") is None:
        pytest.skip("objcopy is not installed")
    subprocess.run(command, check=True)
    assert ("toybox", 2) in found(toybox, copy)


def test_hosts_of_plugins_refuse_edits_with_their_reason(toybox: Path, tmp_path: Path) -> None:
    done = fatpack(toybox, "remove", CHEST, "-o", tmp_path / "out")
    assert (done.returncode, "toychests are not edited: this is an example" in done.stderr) == (4, True)


def test_plugins_can_be_kept_out(toybox: Path) -> None:
    done = fatpack(toybox, "inspect", "--json", BOX, environment={"FATPACK_PLUGINS": "no"})
    assert json.loads(done.stdout)["files"][0]["containers"] == []


def test_files_that_our_rooms_know_ask_no_plugin(tmp_path: Path) -> None:
    module = "import sys\nsys.stderr.write('imported')\n"
    folder = install(tmp_path, {"fatpack.formats:x": "plug"}, {"plug": module})
    assert "imported" not in fatpack(folder, "inspect", FIXTURES / "offload_binary" / "llvm-22-four.bin").stderr
    assert "imported" in fatpack(folder, "inspect", BOX).stderr


DOOR = """
from toybox.container import *
from toybox import container
DOC, LAYOUTS = container.DOC, container.LAYOUTS
MAGICS = (b"TOYBOX\\0\\1",)
"""

#: what is wrong → the module, and what the note says
UNUSABLE = {
    "ends": ("raise SystemExit(0)", "importing plug failed: SystemExit: 0"),
    "import": ("raise OSError('no licence server')", "importing plug failed: OSError: no licence server"),
    "syntax": ("def", "importing plug failed: SyntaxError"),
    "door": ("MAGICS = (b'TOYBOX',)", "plug lacks DOC, LAYOUTS, detect, extent, parse, write, labels, describe"),
    "type": (f"{DOOR}\nMAGICS = [b'TOYBOX']", "MAGICS of plug is [b'TOYBOX'], expected a tuple of bytes"),
    "no module": ("import sys\nsys.modules[__name__] = object()", "it is a object, not a module"),
    "panic": ("class Panic(BaseException): pass\nraise Panic('at 1')", "importing plug failed: Panic: at 1"),
    "tuple": (
        f"{DOOR}\nclass Odd(tuple):\n    def __iter__(self): return 1 / 0\nMAGICS = Odd((b'TOYBOX',))",
        "plug fails: ZeroDivisionError",
    ),
    "refusal": (f"{DOOR}\nREFUSAL = 5", "REFUSAL of plug is 5, expected two texts"),
    "short": (f"{DOOR}\nMAGICS = (b'TO',)", "expected 4 to 24 bytes"),
    "taken": (f"{DOOR}\nMAGICS = (b'CCOB9',)", "begins as b'CCOB' of another module does"),
}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_a_plugin_that_cannot_be_used_is_reported_and_breaks_nothing(toybox: Path, fault: str) -> None:
    module, said = UNUSABLE[fault]
    install(toybox, {"fatpack.formats:plug": "plug"}, {"plug": module})
    (toybox / "toybox-1.0.dist-info" / "entry_points.txt").unlink()
    done = fatpack(toybox, "inspect", "--json", BOX)
    (record,) = json.loads(done.stdout)["files"]
    assert done.returncode == 0, done.stderr
    (told,) = record["findings"]
    assert (told["code"], told["severity"]) == ("FP1009", "note")
    assert "plug-in plug of other is not used: " in told["message"]
    assert said in told["message"]


@pytest.mark.parametrize("name", ["../toys", "toy\x1b[31m", "toy box"])
def test_names_of_plugins_are_words(toybox: Path, name: str) -> None:
    install(toybox, {f"fatpack.formats:{name}": "toybox.container"})
    (record,) = json.loads(fatpack(toybox, "inspect", "--json", BOX).stdout)["files"]
    assert "names are of letters, digits and _.-" in record["findings"][0]["message"]


#: entry points that are no text, or that would be waited for
DAMAGED = {
    "not UTF-8": b"[fatpack.formats]\nx = y\xff\n",
    "no pairs": b"[fatpack.formats]\nx\n",
    "large": b"[fatpack.formats]\nx = y\n" + b"\n" * (1 << 20),
}


@pytest.mark.parametrize("fault", DAMAGED)
def test_damaged_metadata_of_one_package_keep_no_other_out(toybox: Path, fault: str) -> None:
    install(toybox, {"fatpack.formats:x": "x"})
    (toybox / "other-1.0.dist-info" / "entry_points.txt").write_bytes(DAMAGED[fault])
    done = fatpack(toybox, "inspect", "--json", BOX)
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["files"]
    assert [each["format"] for each in record["containers"]] == ["toybox"]
    assert "plug-ins of other are not used: " in record["findings"][0]["message"]


def test_a_pipe_in_the_place_of_metadata_is_not_waited_for(toybox: Path) -> None:
    install(toybox, {})
    (toybox / "other-1.0.dist-info" / "entry_points.txt").unlink()
    os.mkfifo(toybox / "other-1.0.dist-info" / "entry_points.txt")
    assert found(toybox, BOX) == [("toybox", 2)]


def test_what_a_plugin_prints_when_it_is_imported_is_no_json(toybox: Path) -> None:
    install(toybox, {"fatpack.formats:plug": "plug"}, {"plug": f"print('loaded')\n{DOOR}\n{PARSE}\nNAME = 'plug'\n"})
    (toybox / "toybox-1.0.dist-info" / "entry_points.txt").unlink()
    done = fatpack(toybox, "inspect", "--json", BOX)
    assert json.loads(done.stdout)["files"][0]["containers"][0]["format"] == "plug"
    assert "loaded" in done.stderr


def test_a_built_in_name_is_no_name_for_a_plugin(toybox: Path) -> None:
    install(toybox, {"fatpack.formats:cuda-fatbin": "toybox.container"})
    (record,) = json.loads(fatpack(toybox, "inspect", "--json", BOX).stdout)["files"]
    assert [each["format"] for each in record["containers"]] == ["toybox"]
    assert "fatpack has a module of that name; remove other" in record["findings"][0]["message"]


#: a part of the door that fails → the exit code of inspect, and what is said
FAILING = {
    "def parse(view, at=0): return 1 / 0": (3, "parse of plug-in plug of other failed: ZeroDivisionError"),
    "def parse(view, at=0): raise KeyError('x')": (3, "failed: KeyError: 'x'"),
    "def parse(view, at=0): raise RecursionError": (3, "failed: RecursionError"),
    "import sys\ndef parse(view, at=0): sys.exit(0)": (3, "parse of plug-in plug of other failed: SystemExit: 0"),
    "def extent(view, at=0): raise SystemExit(0)\ndef parse(view, at=0): return None": (3, "returned None"),
    "class Odd:\n    span = None\n    def __repr__(self): return 1 / 0\ndef parse(view, at=0): return Odd()": (
        3,
        "parse of plug-in plug of other returned a Odd",
    ),
    "class Odd:\n    format = 'plug'\n    class span: start, end = 0, 9\ndef parse(view, at=0): return Odd()": (
        3,
        "returned <plug.Odd",
    ),
    "from fatpack.model import Span\n"
    "def parse(view, at=0):\n    box = container.parse(view, at).replace(format='plug')\n"
    "    return box.replace(images=(box.images[0].replace(span=Span(1 << 60, 1 << 61)),))": (3, "returned Container"),
    "def parse(view, at=0): return container.parse(view, at).replace(format='plug', images=(1,))": (
        3,
        "returned Container",
    ),
    "def parse(view, at=0): return None": (3, "parse of plug-in plug of other returned None"),
    "def parse(view, at=0): return container.parse(view, at).replace(format='cuda-fatbin')": (3, "returned Container"),
    "def extent(view, at=0): return 1 / 0\ndef parse(view, at=0): raise ValueError('bad')": (
        3,
        "failed: ValueError: bad",
    ),
    "def extent(view, at=0): return 'all'\ndef parse(view, at=0): raise ValueError('bad')": (
        3,
        "failed: ValueError: bad",
    ),
}


@pytest.mark.parametrize("part", FAILING)
def test_a_plugin_that_fails_is_damage_at_its_place(toybox: Path, part: str) -> None:
    code, said = FAILING[part]
    install(toybox, {"fatpack.formats:plug": "plug"}, {"plug": f"{DOOR}\n{part}\n"})
    (toybox / "toybox-1.0.dist-info" / "entry_points.txt").unlink()
    done = fatpack(toybox, "inspect", BOX)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "FP1001" in done.stdout + done.stderr
    assert said in done.stdout + done.stderr


def test_a_plugin_that_fails_hides_no_other_container(toybox: Path, tmp_path: Path) -> None:
    install(toybox, {"fatpack.formats:plug": "plug"}, {"plug": f"{DOOR}\ndef parse(view, at=0): return 1 / 0\n"})
    (toybox / "toybox-1.0.dist-info" / "entry_points.txt").unlink()
    offload = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
    both = tmp_path / "both"
    both.write_bytes(BOX.read_bytes() + bytes(-len(BOX.read_bytes()) % 8) + offload)
    assert {each for each, _ in found(toybox, both)} == {"llvm-offload-binary"}


@pytest.mark.parametrize(
    "part",
    ["def labels(view, container):\n    yield 1 / 0", "def labels(view, container): return 1 / 0"],
)
def test_labels_that_fail_are_a_fatpack_error(toybox: Path, part: str) -> None:
    install(toybox, {"fatpack.formats:plug": "plug"}, {"plug": f"{DOOR}\nNAME = 'plug'\n{PARSE}\n{part}\n"})
    (toybox / "toybox-1.0.dist-info" / "entry_points.txt").unlink()
    done = fatpack(toybox, "inspect", "--bytes", BOX)
    assert "Traceback" not in done.stderr
    assert "labels of plug-in plug of other failed: ZeroDivisionError" in done.stdout + done.stderr
    assert done.returncode == 3


#: generators of labels that yield what they should not → what is said
ODD_LABELS = {
    "def labels(view, container):\n    while True: yield Label(view.span(0, 1), 'x', kind='data')": "does not end",
    "def labels(view, container):\n    yield 1": "TypeError: yielded 1",
    "import sys\ndef labels(view, container):\n    yield sys.exit(0)": "failed: SystemExit: 0",
}


@pytest.mark.parametrize("part", ODD_LABELS)
def test_labels_are_labels_and_no_more_than_bytes(toybox: Path, part: str) -> None:
    module = f"from fatpack.model import Label\n{DOOR}\nNAME = 'plug'\n{PARSE}\n{part}\n"
    install(toybox, {"fatpack.formats:plug": "plug"}, {"plug": module})
    (toybox / "toybox-1.0.dist-info" / "entry_points.txt").unlink()
    done = fatpack(toybox, "inspect", "--bytes", BOX)
    assert ODD_LABELS[part] in done.stdout + done.stderr
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)


PARSE = "def parse(view, at=0): return container.parse(view, at).replace(format='plug')"


@pytest.mark.parametrize(
    "part",
    [
        "def detect(view): return 1 / 0",
        "def detect(view): raise SystemExit(0)",
        "def locate(view):\n    yield 1 / 0",
        "def locate(view):\n    yield 1",
        "def locate(view): return [1]",
    ],
)
def test_a_host_that_fails_breaks_nothing(toybox: Path, part: str) -> None:
    module = f"from toybox.chest import *\nfrom toybox import chest\nDOC, STARTS = chest.DOC, chest.STARTS\n{part}\n"
    install(toybox, {"fatpack.binary:plug": "plug"}, {"plug": module})
    (toybox / "toybox-1.0.dist-info" / "entry_points.txt").unlink()
    done = fatpack(toybox, "inspect", CHEST)
    assert "Traceback" not in done.stderr
    assert "of plug-in plug of other failed" in done.stdout + done.stderr or "failed in detect" in done.stdout
    (done,) = [fatpack(toybox, "inspect", CHEST, OBJECT)]
    assert "gfx90a" in done.stdout


def odd_image(**fields: object) -> Container:
    """Return a container of the format `plug` with an image whose fields are these."""
    view = BytesSource(bytes(16)).view()
    image = Image(Target(arch="sm_80"), "", view, 16, 16, Span(0, 16)).replace(**fields)
    return Container("plug", 1, (image,), Span(0, 16))


def fails() -> dict[str, object]:
    raise ZeroDivisionError


#: what `parse` returns → what is said of it
ODD_CONTAINERS = {
    "its version": odd_image().replace(version=object()),
    "its attrs": odd_image().replace(attrs={1: "x"}),
    "its unknown": odd_image().replace(unknown=(1,)),
    "its findings": odd_image().replace(findings=(Finding("FP1001", "fatal", Span(0, 1), "x"),)),
    "its images": odd_image().replace(images=[odd_image().images[0]]),
    "it has more images than bytes": odd_image().replace(images=odd_image().images * 17),
    "target of image 0": odd_image(target=Target(arch=80)),  # type: ignore[arg-type]
    "form of image 0": odd_image(form=None),
    "size of image 0": odd_image(size=-1),
    "stored_size of image 0": odd_image(stored_size="16"),
    "compression of image 0": odd_image(compression=3),
    "data of image 0": odd_image(data=b"bytes"),
    "attrs of image 0": odd_image(attrs=["x"]),
    "span of image 0": odd_image(span=None),
    "ZeroDivisionError": odd_image().replace(images=(lazy_image(Target(), "", None, 1, 1, "zlib", fails),)),
}


def room(**parts: object) -> CheckedPlugin:
    """Return a guarded module with these parts."""
    module = ModuleType("plug")
    module.__dict__.update(parts)
    return CheckedPlugin("plug", "plug-in plug of other", module)


@pytest.mark.parametrize("said", ODD_CONTAINERS)
def test_a_container_has_values_of_the_types_of_its_fields(said: str) -> None:
    view = BytesSource(bytes(16)).view()
    assert room(parse=lambda view, at: odd_image()).parse(view, 0).version == 1
    with pytest.raises(FormatError, match=f"parse of plug-in plug of other .*{said}"):
        room(parse=lambda view, at: ODD_CONTAINERS[said]).parse(view, 0)


def rust_panic(*_: object) -> None:
    class PanicException(BaseException):
        pass

    raise PanicException("index out of bounds")


#: part → what it returns that it should not
ODD_RESULTS: list[tuple[str, object]] = [
    ("describe", None),
    ("describe", {"x": object()}),
    ("describe", {1: 2}),
    ("labels", [1]),
    ("labels", None),
    ("labels", [Label(Span(0, 1), 7)]),  # type: ignore[arg-type]
    ("locate", [1]),
    ("locate", None),
    ("locate", [CodeSection(BytesSource(b"").view(), section=5)]),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(
    ("part", "result"), ODD_RESULTS, ids=[f"{part}-{at}" for at, (part, _) in enumerate(ODD_RESULTS)]
)
def test_a_result_of_a_wrong_type_is_a_fatpack_error(part: str, result: object) -> None:
    view = BytesSource(bytes(16)).view()
    for function in (lambda *_: result, rust_panic):
        call = getattr(room(**{part: function}), part)
        with pytest.raises(FormatError, match=f"{part} of plug-in plug of other "):
            found = call(odd_image()) if part == "describe" else list(call(view, odd_image()))
            pytest.fail(f"returned {found}")


def test_what_is_described_may_not_hold_itself() -> None:
    described: dict[str, object] = {}
    described["itself"] = described
    with pytest.raises(FormatError, match="no plain data"):
        room(describe=lambda container: described).describe(odd_image())


def test_a_generator_that_is_given_up_is_closed() -> None:
    labels = room(labels=lambda view: iter([Label(Span(0, 1), "x"), Label(Span(1, 2), "y")])).labels
    drawn = labels(BytesSource(bytes(16)).view())
    assert next(drawn).name == "x"
    drawn.close()


class NoBool:
    def __bool__(self) -> bool:
        raise ValueError("truth of an array")


def test_what_detect_returns_may_fail_to_be_true_or_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.plugins._problems", {})
    assert room(detect=lambda view, at: NoBool()).detect(BytesSource(b"").view(), 0) is False
    assert any("failed in detect: ValueError: truth of an array" in problem for problem in problems())


@pytest.mark.slow
def test_the_example_is_installed_and_holds_the_laws(tmp_path: Path) -> None:
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(EXAMPLE)], check=True, capture_output=True)
    search = os.pathsep.join([str(target), str(Path(__file__).parents[1] / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests")],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "18 passed" in done.stdout
