"""Hostile files: time and memory are linear, and nested text does not cause recursion."""

from __future__ import annotations

import pytest
from tests.builders.cir import HOST, SM_80, combined, parsed, splits

from fatpack import limits
from fatpack.errors import FatpackError, LimitExceeded
from fatpack.formats import cir, find_text_format
from fatpack.io.source import BytesSource, Source, View
from fatpack.testing.helpers import TracedMemory, join_pieces

START = (
    "module attributes {cir.offload.container} {\n"
    f'  module @host attributes {{cir.offload.bundle_id = "{HOST}", cir.offload.kind = #cir.offload<host>'
)
MIDDLE = "} {\n"
END = (
    f'  }}\n  module @d attributes {{cir.offload.bundle_id = "{SM_80}", '
    "cir.offload.kind = #cir.offload<device>} {\n  }\n}\n"
)

HOSTILE = {
    "open braces": "{" * 200_000,
    "open angles": "#a<" * 70_000,
    "open angles in an attribute": None,
    "quotes": '"' * 200_001,
    "escaped quotes": '"' + '\\"' * 100_000,
    "backslashes": '"' + "\\" * 200_000,
    "slashes": "/" * 200_000,
    "comments behind brackets": "#a<b //\n" * 30_000,
    "comments in bodies": '#a<"b" //\n>' * 20_000,
    "modules": "module {\n" * 20_000,
    "generic modules": '"builtin.module"() ({\n' * 10_000,
    "results": "\n%a, " * 40_000,
    "labels": "\n^a(" * 40_000,
    "aliases": "#a !b " * 40_000,
    "carriage returns": "\r" * 200_000,
    "line feeds": "\n" * 200_000,
    "records": '!cir.struct<"a" {' * 12_000,
    "words of a record": "!cir.struct<" + "a " * 100_000,
}


#: Text at file level: functions in one line of it, and values whose types have types.
AT_FILE_LEVEL = {
    "functions in a line": "cir.func\r" * 25_000,
    "types of types": f"#a = {'cir.x : ' * 5_000}i32\n",
    "results of results": f"!a = {'() -> ' * 5_000}i32\n",
}


@pytest.mark.parametrize("name", AT_FILE_LEVEL)
def test_repeated_text_at_file_level_is_read(name: str) -> None:
    """This takes minutes, or raises another exception, if each item reads the rest of the line or recurses."""
    container = parsed(AT_FILE_LEVEL[name] + START + MIDDLE + END)
    assert [image.target.spelling for image in container.images] == [HOST, SM_80]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", HOSTILE)
def test_nested_and_repeated_text_is_read_or_refused(name: str) -> None:
    """A slow rule, or one that recurses, would make this test take minutes or fail with another exception."""
    junk = HOSTILE[name]
    if junk is None:
        text = START + ", x.y = " + "<" * 200_000 + MIDDLE + END
    else:
        text = START + MIDDLE + junk + END
    for data in (text, START + MIDDLE + (junk or "") + "\n" + END * 2):
        try:
            container = parsed(data)
            for image in container.images:
                join_pieces(cir.split_image(image))
            join_pieces(cir.write(container.replace(attrs={"form": "op"})))
        except FatpackError:
            pass


def test_brackets_in_a_definition_do_not_recurse() -> None:
    for opener, closer in (("[", "]"), ("{a = ", "}"), ("#x.y<", ">"), ("(", ") -> i1")):
        text = (
            f"#deep = {opener * 50_000}1{closer * 50_000}\n"
            + combined(("module {\n}", HOST), ("module {\n}", SM_80)).decode()
        )
        try:
            parsed(text)
        except FatpackError:
            pass


def test_a_million_attributes_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="attributes in one dictionary"):
        parsed(START + "".join(f", a.b{number}" for number in range(20_000)) + MIDDLE + END)


def test_records_that_nest_deeply_do_not_recurse() -> None:
    deep = "".join(f'!cir.struct<"S{number}" {{data ' for number in range(3000)) + "i1" + "}>" * 3000
    file = f"module attributes {{a.b = {deep}}} {{\n}}\n"
    made = combined((file, HOST), (file.replace("i1", "i2"), SM_80))
    assert made.count(b'"S0"') == 1
    assert b'"S2999.device_' in made


class Counting(Source):
    """A long text that is generated when it is read, and counts the bytes read."""

    def __init__(self, head: bytes, line: bytes, count: int, tail: bytes) -> None:
        self.name = "long.cir"
        self._head, self._line, self._tail = head, line, tail
        self._body_end = len(head) + len(line) * count
        self.size = self.present = self._body_end + len(tail)
        self.seen = 0

    def read(self, offset: int, size: int) -> bytes:
        self.seen += size
        end = offset + size
        parts = [self._head[offset:end]]
        start, stop = max(offset, len(self._head)), min(end, self._body_end)
        if start < stop:
            first, last = (start - len(self._head)) // len(self._line), (stop - len(self._head)) // len(self._line) + 1
            block = self._line * (last - first)
            at = start - len(self._head) - first * len(self._line)
            parts.append(block[at : at + stop - start])
        if end > self._body_end:
            parts.append(self._tail[max(offset - self._body_end, 0) : end - self._body_end])
        return b"".join(parts)


LINES = {
    "operations": b"    %1 = cir.load align(4) %0 : !cir.ptr<!s32i>, !s32i loc(#loc5)  // 1 use {\n",
    "globals": b'  cir.global @x = #cir.const_array<"}{\\00" : !t> : !t\n',
    "escapes": b"\\80\\81\\82\\83\\84\\85\\86\\87\\88\\89",
}


@pytest.mark.parametrize("name", LINES)
def test_memory_does_not_grow_with_the_file_and_nothing_is_read_twice(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CHUNK", 1 << 18)  # so that a small file is much larger than the window
    head = (START + ((', a.b = "') if name == "escapes" else MIDDLE)).encode()
    tail = ((('"' + MIDDLE) if name == "escapes" else "") + END).encode()
    source = Counting(head, LINES[name], (4 << 20) // len(LINES[name]), tail)
    view = View(source, 0, source.size, ("long.cir",))
    with TracedMemory() as memory:
        assert find_text_format(view) == "cir-offload-container"
        assert source.seen < 1 << 20
        container = cir.parse(view)
        assert len(container.images) == 2
        assert not container.findings
    assert memory.peak < 3 << 20
    assert source.seen < 3 * source.size


def test_a_container_that_is_only_opened_is_no_container() -> None:
    text = "module attributes {cir.offload.container} {"
    assert find_text_format(BytesSource(text.encode(), "x").view()) == "cir-offload-container"
    with pytest.raises(FatpackError):
        parsed(text)
    assert splits(text + "\n" + END[4:]) != []
