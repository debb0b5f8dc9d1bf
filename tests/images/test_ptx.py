"""PTX: what its first directives claim, and its kernels."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import run

from fatpack import images, limits
from fatpack.errors import LimitExceeded
from fatpack.images import ptx
from fatpack.images.ptx import strip_comments
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource

TEXTS = sorted((Path(__file__).parents[1] / "fixtures" / "cuda" / "ptx").glob("*.ptx"))


def recognise(text: bytes) -> images.ImageInfo:
    return images.identify_image(BytesSource(text).view())


def kernels(text: bytes) -> tuple[str, ...]:
    return images.kernels(BytesSource(text).view(), "ptx")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_ptx_of_nvcc_says_what_it_was_compiled_for(path):
    with open_source(path) as file:
        recognised = images.identify_image(file.view())
        assert images.kernels(file.view(), "ptx") == ("add_one", "_Z5scaleIfEvPT_S0_i", "_Z5scaleIdEvPT_S0_i")
    arch = path.stem.partition("compute_")[2]
    assert recognised == images.ImageInfo("ptx", f"sm_{arch}", "nvptx64-nvidia-cuda", None, "PTX 9.0, 64-bit")


@pytest.mark.parametrize(
    ("rest", "detail"),
    [
        (b".target sm_90, debug\n.address_size 64\n", "PTX 8.1, 64-bit, debug"),
        (b".target sm_20\n.address_size 32\n", "PTX 8.1, 32-bit"),
        (b".target sm_90\n.visible .func debug ()\n", "PTX 8.1"),
    ],
)
def test_address_size_and_debugging_are_reported(rest: bytes, detail: str) -> None:
    assert images.identify_image(BytesSource(b".version 8.1\n" + rest).view()).detail == detail


@pytest.mark.parametrize(
    ("text", "arch", "triple"),
    [
        (b".version 7.0\n.target sm_52\n.address_size 64\n", "sm_52", "nvptx64-nvidia-cuda"),
        (b".version 7.0 .target sm_52, debug .address_size 32", "sm_52", "nvptx-nvidia-cuda"),
        (b".version 3.0\n.target sm_20,texmode_independent\n", "sm_20", "nvptx64-nvidia-cuda"),
        (b"// c\n/* .version\n*/ .version 8.5 // .target sm_10\n.target\tsm_90a\r\n", "sm_90a", "nvptx64-nvidia-cuda"),
        (b".version 8.5\n\0\0\0", "", "nvptx64-nvidia-cuda"),
        (b".version 8.5\n.target \xff\xfe\n", "", "nvptx64-nvidia-cuda"),
        (b".version", "", "nvptx64-nvidia-cuda"),
    ],
)
def test_the_first_directives_are_the_claims(text, arch, triple):
    recognised = recognise(text)
    assert (recognised.form, recognised.arch, recognised.triple) == ("ptx", arch, triple)


def test_a_licence_of_many_lines_may_come_first():
    assert recognise(b"// all rights reserved\n" * 2000 + b".version 8.5\n.target sm_80\n").arch == "sm_80"


def test_text_after_a_nul_is_padding():
    assert recognise(b"\0.version 8.5\n").form == ""
    assert kernels(b".entry one()\n\0.entry two()") == ("one",)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b".visible .entry k(\n.param .u64 a\n)", ("k",)),
        (b".entry k{ret;}", ("k",)),
        (b".weak .entry\n\t$_name$1 ()", ("$_name$1",)),
        (b".entry /* ( */ k ()", ("k",)),
        (b".entry// (\nk()", ("k",)),
        (b"// .entry no()\n/* .entry no() */ .entry yes()", ("yes",)),
        (b'.file 1 ".entry no()"\n.entry yes()', ("yes",)),
        (b'.file 1 "a\\".entry no()"\n.entry yes()', ("yes",)),
        (b'.file 1 "http://x/*"\n.entry yes()', ("yes",)),
        (b".entry a() .entry b() .entry a()", ("a", "b")),
        (b".entry", ()),
        (b".entry ", ()),
        (b".entry last", ("last",)),
        (b".entrypoint k()", ()),
        (b".func f() { call .entry_like; }", ()),
        (b"/* .entry no()", ()),
        (b"a / b .entry k() /", ("k",)),
        (b"// mac line ends\r.entry k()\r", ("k",)),
    ],
)
def test_kernels_are_the_names_after_entry_outside_comments_and_strings(text, names):
    assert kernels(text) == names


@pytest.mark.parametrize("size", range(1, 12))
def test_kernels_do_not_depend_on_where_a_piece_ends(size, monkeypatch):
    text = b'.file "a\\"//" /* .entry no() */\n.visible .entry first ( )// .entry no()\n.entry\tsecond() "'
    monkeypatch.setattr(limits, "CHUNK", size)
    assert kernels(text) == ("first", "second")


@given(
    st.lists(st.sampled_from([b"//", b"/*", b"*/", b'"', b"\\", b"\n", b"/", b"*", b".entry k() ", b"x"]), max_size=12)
)
def test_comments_and_strings_end_where_a_character_by_character_reader_ends_them(parts):
    text = b"".join(parts)
    state, at, kept = "", 0, b""
    while at < len(text):
        two, one = text[at : at + 2], text[at : at + 1]
        if not state and two in (b"//", b"/*"):
            state, at, kept = two.decode(), at + 2, kept + b"\n"
        elif not state and one == b'"':
            state, at, kept = '"', at + 1, kept + b"\n"
        elif not state:
            at, kept = at + 1, kept + one
        elif (state == "//" and one == b"\n") or (state == '"' and one == b'"' and text[at - 1 : at] != b"\\"):
            state, at = "", at + 1
        elif state == "/*" and two == b"*/":
            state, at = "", at + 2
        else:
            at += 1
    assert b"".join(strip_comments([text])) == kept
    assert b"".join(strip_comments([text[i : i + 1] for i in range(len(text))])) == kept


def test_a_name_that_does_not_end_is_refused():
    with pytest.raises(LimitExceeded, match="does not end"):
        kernels(b".entry " + b"n" * (3 * limits.CHUNK))


@pytest.mark.parametrize("unit", [b"//", b"/*", b'"', b"/ ", b"//\r", b'"//"/**/', b".entry ", b'\\"', b"/*/"])
def test_time_stays_linear_whatever_the_text(unit):
    text = b".version 8.5\n" + unit * ((1 << 20) // len(unit))
    start = time.process_time()  # not that of others on the machine
    recognise(text)
    kernels(text)
    assert time.process_time() - start < 20  # a second at most; a quadratic reader takes hours


@pytest.mark.reference
@pytest.mark.parametrize("options", [(), ("-g",)], ids=["plain", "debug"])
def test_ptx_of_clang_has_the_kernels_that_ptxas_finds(options, tmp_path):
    source, text, cubin = tmp_path / "k.cu", tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(
        "__attribute__((global)) void first(int *p) { *p = 1; }\n"
        "__attribute__((device)) int helper(int x) { return x; }\n"
        'extern "C" __attribute__((global)) void second(int *p) { *p = helper(2); }\n'
    )
    cuda = ("-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-device-only", "--cuda-gpu-arch=sm_80")
    run("clang", *cuda, "-S", *options, source, "-o", text)
    run("ptxas", "-arch=sm_80", text, "-o", cubin)
    with open_source(text) as file, open_source(cubin) as compiled:
        recognised = images.identify_image(file.view())
        assert (recognised.form, recognised.arch) == ("ptx", "sm_80")
        found = images.kernels(file.view(), "ptx")
        assert found == ("_Z5firstPi", "second")
        assert sorted(found) == sorted(images.kernels(compiled.view(), "cubin"))
    assert re.search(rb"//", text.read_bytes())


@pytest.mark.parametrize("first", [b".version", b".target", b"8.0"])
@pytest.mark.parametrize("target", [b"sm_90", b"sm_90,debug", b"sm_90, debug", b".version", b"debug", b'"sm_90"', b""])
@pytest.mark.parametrize(
    "rest", [b"", b".address_size", b".address_size 32", b".address_size 64/*", b".func f .target x"]
)
def test_usual_first_words_say_what_reading_all_says(first: bytes, target: bytes, rest: bytes) -> None:
    text = b" ".join((first, b"8.0", b".target", target, rest))
    for _ in range(2):  # the second time it is known
        quick = ptx.identify_ptx_fast(text)
        assert quick is None or quick == ptx.identify_ptx(b"".join(strip_comments([text])))


def test_most_texts_begin_with_usual_words() -> None:
    assert ptx.identify_ptx_fast(b".version 8.0\n.target sm_90\n") is not None
    assert ptx.identify_ptx_fast(b".version 8.0\n.target sm_90\n.address_size 64\n\n\t// .globl f\n") is not None


def test_an_entry_in_a_comment_or_after_the_end_is_none() -> None:
    assert kernels(b".version 8.0\n// .entry f\n") == ()
    assert kernels(b".version 8.0\n\0.entry f\n") == ()
    assert kernels(b".version 8.0\n.entry f\n") == ("f",)
