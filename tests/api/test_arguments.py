"""Wrong arguments: the error names the argument, and what it takes."""

from __future__ import annotations

import inspect
import io
import pydoc
from collections.abc import Callable
from typing import Any

import pytest

import fatpack
from fatpack import ImageFile

IMAGE = ImageFile(b"x", triple="t")
TO: Any = io.BytesIO()

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "one image": (lambda: fatpack.pack(IMAGE, TO), "images are several fatpack.ImageFile in a list, not ImageFile"),  # type: ignore[arg-type]
    "a path": (lambda: fatpack.pack("a.cubin", TO), "images are several fatpack.ImageFile in a list, not str"),  # type: ignore[arg-type]
    "no images": (lambda: fatpack.pack(3, TO), "images are several fatpack.ImageFile in a list, not int"),  # type: ignore[arg-type]
    "paths": (lambda: fatpack.pack(["a.cubin"], TO), r"images\[0\] is a fatpack.ImageFile, not str"),  # type: ignore[list-item]
    "file": (lambda: fatpack.pack([ImageFile(3)], TO), "file is a path, bytes or a binary file, not int"),  # type: ignore[arg-type]
    "format": (lambda: fatpack.pack([IMAGE], TO, format=3), "format is the name of a format, not int"),  # type: ignore[arg-type]
    "host": (lambda: fatpack.pack([IMAGE], TO, host=3), "host is a path, bytes or a binary file, not int"),  # type: ignore[arg-type]
    "output": (lambda: fatpack.pack([IMAGE], 3), "output is a path or a binary file open for writing, not int"),  # type: ignore[arg-type]
    "data": (lambda: fatpack.open(None), "data is a path, bytes or a binary file, not NoneType"),  # type: ignore[arg-type]
    "text": (lambda: fatpack.open(io.StringIO("x")), "data is a path, bytes or a binary file, not str"),  # type: ignore[arg-type]
    "scanned": (lambda: list(fatpack.scan(3)), "data is a path, bytes or a binary file, not int"),  # type: ignore[arg-type]
    "selector": (lambda: fatpack.extract(b"", "x", "sm_80"), "selector is a fatpack.Selector, not str"),  # type: ignore[arg-type]
    "removed": (lambda: fatpack.remove(b"", TO, "sm_80"), "selector is a fatpack.Selector, not str"),  # type: ignore[arg-type]
    "container": (lambda: fatpack.embed(b"", 3, TO), "container is a path, bytes or a binary file, not int"),  # type: ignore[arg-type]
    "field": (lambda: fatpack.BundleOptions(aling=4), "BundleOptions has no field 'aling'"),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(TypeError, match=message):
        call()


def test_formats_are_named_or_meant_by_their_options() -> None:
    with pytest.raises(fatpack.UsageError, match=r"container format 'bundel'.*known are offload-binary, bundle"):
        fatpack.pack([IMAGE], io.BytesIO(), format="bundel")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"options are one of OffloadBinaryOptions, .*, not Options"):
        fatpack.pack([IMAGE], io.BytesIO(), options=fatpack.Options())


@pytest.mark.parametrize("name", ["pack", "convert"])
def test_no_function_has_more_than_six_parameters(name: str) -> None:
    assert len(inspect.signature(getattr(fatpack, name)).parameters) <= 6


def test_help_for_scan_is_that_of_the_public_function() -> None:
    assert list(inspect.signature(fatpack.scan).parameters)[:2] == ["data", "deep"]
    assert "a path, bytes or a binary file" in pydoc.render_doc(fatpack.scan)


def test_what_a_file_shows_of_itself() -> None:
    output = io.BytesIO()
    fatpack.pack([IMAGE, IMAGE], output)
    with fatpack.open(output.getvalue()) as file:
        assert repr(file) == f"<fatpack.File '' of {len(output.getvalue())} bytes: raw, not scanned yet>"
        assert len(file.containers) == 2
        assert repr(file).endswith("raw, 2 containers, 2 images, no findings>")
