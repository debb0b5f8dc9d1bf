"""Wrong arguments: the error names the argument, and what it takes."""

from __future__ import annotations

import inspect
import io
import pydoc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import ImageFile
from fatpack.library.arguments import OPTION_FIELDS, check_options
from fatpack.selectors import select as selecting

IMAGE = ImageFile(b"x", triple="t")
TO: Any = io.BytesIO()

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "one image": (lambda: fatpack.pack(IMAGE, TO), "images must be several fatpack.ImageFile in a list, got ImageFile"),  # type: ignore[arg-type]
    "a path": (lambda: fatpack.pack("a.cubin", TO), "images must be several fatpack.ImageFile in a list, got str"),  # type: ignore[arg-type]
    "no images": (lambda: fatpack.pack(3, TO), "images must be several fatpack.ImageFile in a list, got int"),  # type: ignore[arg-type]
    "paths": (lambda: fatpack.pack(["a.cubin"], TO), r"images\[0\] must be a fatpack.ImageFile, got str"),  # type: ignore[list-item]
    "file": (lambda: fatpack.pack([ImageFile(3)], TO), "file must be a path, bytes or a binary file, got int"),  # type: ignore[arg-type]
    "format": (lambda: fatpack.pack([IMAGE], TO, format=3), "format must be the name of a format, got int"),  # type: ignore[arg-type]
    "host": (lambda: fatpack.pack([IMAGE], TO, host=3), "host must be a path, bytes or a binary file, got int"),  # type: ignore[arg-type]
    "output": (lambda: fatpack.pack([IMAGE], 3), "output must be a path or a binary file open for writing, got int"),  # type: ignore[arg-type]
    "file of open": (lambda: fatpack.open(None), "file must be a path, bytes or a binary file, got NoneType"),  # type: ignore[arg-type]
    "text": (
        lambda: fatpack.open(io.StringIO("x")),
        "file must be a path, bytes or a binary file, got a text file; open it with mode 'rb'",
    ),  # type: ignore[arg-type]
    "scanned": (lambda: fatpack.scan(3), "paths must be a path, bytes or a binary file, got int"),  # type: ignore[arg-type]
    "selector": (lambda: fatpack.extract(b"", "x", "sm_80"), "selector must be a fatpack.Selector, got str"),  # type: ignore[arg-type]
    "removed": (lambda: fatpack.remove(b"", TO, "sm_80"), "selector must be a fatpack.Selector, got str"),  # type: ignore[arg-type]
    "container": (lambda: fatpack.embed(b"", 3, TO), "container must be a path, bytes or a binary file, got int"),  # type: ignore[arg-type]
    "field": (lambda: fatpack.BundleOptions(aling=4), "no field 'aling'; it has type, align, compression, version"),  # type: ignore[call-arg]
    "twice": (lambda: ImageFile(b"x", file=b"y"), "ImageFile got 'file' twice"),  # type: ignore[misc]
    "options": (
        lambda: fatpack.pack([IMAGE], TO, format=fatpack.FatbinOptions()),  # type: ignore[arg-type]
        r"format is the name of a format; give options=FatbinOptions\(…\)",
    ),
    "arch": (lambda: fatpack.open(b"").images(arch=80), "arch is a text or a tuple of texts, not 80"),  # type: ignore[arg-type]
    "archs": (lambda: fatpack.Selector(arch=("sm_80", 90)), "arch is a text or a tuple of texts, not"),  # type: ignore[arg-type]
    "index": (lambda: fatpack.Selector(index="0"), "index must be a number, got str"),  # type: ignore[arg-type]
    "kernel": (lambda: fatpack.Selector(kernel=b"k"), "kernel must be a regular expression, got bytes"),  # type: ignore[arg-type]
    "id": (lambda: fatpack.Selector(id=3), "id is a text or a tuple of texts, not 3"),  # type: ignore[arg-type]
    "level": (
        lambda: packed(fatpack.OffloadBinaryOptions(version=3, compression="zstd", level="x")),  # type: ignore[arg-type]
        "level must be a whole number, got str",
    ),
    "align": (lambda: packed(fatpack.BundleOptions(align="1")), "align must be a whole number, got str"),  # type: ignore[arg-type]
    "type": (lambda: packed(fatpack.BundleOptions(type=None)), "type must be a text, got NoneType"),  # type: ignore[arg-type]
    "ids": (lambda: packed(fatpack.CirOptions(ids="abc")), "ids must be several texts in a list, got str"),
    "an id": (lambda: packed(fatpack.CirOptions(ids=[3])), r"ids\[0\] must be a text, got int"),  # type: ignore[list-item]
    "switch": (lambda: packed(fatpack.FatbinOptions(concat="no")), "concat must be True or False, got str"),  # type: ignore[arg-type]
    "place": (lambda: fatpack.open(b"x").images()["0"], "index must be a whole number or a slice, got str"),  # type: ignore[index]
    "devices": (
        lambda: fatpack.slim(b"", TO, devices=None),
        "devices must be a text, or several in a list, got NoneType",
    ),  # type: ignore[arg-type]
    "directory": (lambda: fatpack.extract(b"", None), "directory must be a path, got NoneType"),  # type: ignore[arg-type]
    "bytes for a directory": (lambda: fatpack.extract(b"", b"x"), "directory must be a path, got bytes"),  # type: ignore[arg-type]
    "words": (lambda: fatpack.link_inputs(None, "x"), "words are several texts or paths in a list"),  # type: ignore[arg-type]
    "a word": (lambda: fatpack.link_inputs([3], "x"), "a word must be a path, got int"),  # type: ignore[list-item]
    "command": (
        lambda: fatpack.map_images(FIXTURES / "elf" / "clang-22-hip.o", None, TO),
        "command is a program and its arguments in a list",
    ),  # type: ignore[arg-type]
    "type of texts": (
        lambda: fatpack.check("x", require=bytes),
        "require must be a text, or several in a list, got type",
    ),  # type: ignore[arg-type]
    "max_inflated": (lambda: fatpack.open(b"x", max_inflated="x"), "max_inflated must be a number of bytes, got str"),  # type: ignore[arg-type]
}


def packed(options: fatpack.Options) -> int:
    return fatpack.pack([IMAGE], io.BytesIO(), options=options)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(TypeError, match=message):
        call()


def test_what_is_no_path_of_a_system_is_refused() -> None:
    for call in (
        lambda: fatpack.check("x", config="a\0b"),
        lambda: fatpack.check(["a\0b"]),
        lambda: fatpack.extract(b"", "a\0b"),
        lambda: fatpack.link_inputs(["a\0b.o"], "x"),
    ):
        with pytest.raises(fatpack.UsageError, match="a path cannot contain a NUL character"):
            call()


def test_a_closed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with (tmp_path / "file").open("rb") as closed:
        pass
    memory = io.BytesIO(b"x")
    memory.close()
    with pytest.raises(fatpack.UsageError, match="file is closed; give an open file, or its path"):
        fatpack.open(closed)
    with pytest.raises(fatpack.UsageError, match="the file is closed"):
        fatpack.open(memory)


def test_the_fields_that_are_checked_are_those_of_the_records() -> None:
    records = fatpack.Options.__subclasses__()
    assert {field for record in records for field in record._fields} == OPTION_FIELDS.keys()
    for record in records:
        check_options(record())


def test_a_file_inflates_to_one_byte_at_least() -> None:
    for size in (0, -1):
        with pytest.raises(fatpack.UsageError, match=f"max_inflated is {size}; give the number of bytes, 1 at least"):
            fatpack.open(b"x", max_inflated=size)


def test_a_file_that_is_missing_is_missing_when_it_is_scanned(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fatpack.scan(tmp_path / "none")


def test_images_are_selected_once_however_often_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.BytesIO()
    fatpack.pack([IMAGE.replace(file=bytes([number])) for number in range(5)], output)
    with fatpack.open(output.getvalue()) as file:
        expected = list(file.images())
        images, calls = file.images(), []
        real = selecting.select_images

        def counted(*arguments: Any) -> Any:
            calls.append(arguments)
            return real(*arguments)

        monkeypatch.setattr(selecting, "select_images", counted)
        assert [images[number] for number in range(len(images))] == expected
        assert [images[~number] for number in range(len(images))] == expected[::-1]
        assert list(images) == [*images] == expected
        assert len(calls) == 1
        for index in (5, -6):
            with pytest.raises(IndexError):
                images[index]


def test_formats_are_named_or_meant_by_their_options() -> None:
    with pytest.raises(fatpack.UsageError, match=r"container format 'bundel'.*choose from offload-binary, bundle"):
        fatpack.pack([IMAGE], io.BytesIO(), format="bundel")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"options must be one of OffloadBinaryOptions, .*, got Options"):
        fatpack.pack([IMAGE], io.BytesIO(), options=fatpack.Options())


@pytest.mark.parametrize("name", ["pack", "convert"])
def test_no_function_has_more_than_seven_parameters(name: str) -> None:
    assert len(inspect.signature(getattr(fatpack, name)).parameters) <= 7


def test_help_for_scan_is_that_of_the_public_function() -> None:
    assert list(inspect.signature(fatpack.scan).parameters)[:2] == ["paths", "deep"]
    assert "a path, bytes or a binary file" in pydoc.render_doc(fatpack.scan)


def test_what_a_file_shows_of_itself() -> None:
    output = io.BytesIO()
    fatpack.pack([IMAGE, IMAGE], output)
    with fatpack.open(output.getvalue()) as file:
        assert repr(file) == f"<fatpack.File '' of {len(output.getvalue())} bytes: raw, not scanned yet>"
        assert len(file.containers) == 2
        assert repr(file).endswith("raw, 2 containers, 2 images, no findings>")
        assert all(len(repr(item)) < 100 for item in (*file.containers, *file.images()))


def test_the_library_takes_several_patterns_as_the_command_line_does() -> None:
    output = io.BytesIO()
    archs = ("sm_80", "sm_86", "sm_90")
    images = [ImageFile(b"x", triple="nvptx64-nvidia-cuda", arch=arch, offload="cuda") for arch in archs]
    fatpack.pack(images, output)
    with fatpack.open(output.getvalue()) as file:
        for given in ("sm_80,sm_90", "sm_80, sm_90", ("sm_80", "sm_90"), ("sm_80, sm_90",)):
            assert [image.target.arch for image in file.images(arch=given)] == ["sm_80", "sm_90"]
        assert file.images(arch="sm_80,sm_90").selector.describe() == "--arch=sm_80 --arch=sm_90"


@pytest.mark.parametrize("given", ["", "sm_80,", ("sm_80", "")])
def test_an_empty_pattern_is_refused(given: str | tuple[str, ...]) -> None:
    with pytest.raises(fatpack.UsageError, match="arch: a pattern is empty"):
        fatpack.Selector(arch=given)


def test_a_record_shows_of_long_bytes_how_many_there_are() -> None:
    assert repr(ImageFile(bytes(100_000), "t")).startswith("ImageFile(file=<100000 bytes, b'\\x00")
    assert len(repr(ImageFile(bytes(100_000)))) < 300
