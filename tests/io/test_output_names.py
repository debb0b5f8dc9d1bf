"""No name from a file decides a path."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from fatpack.io.output_names import file_stem, image_name, safe_word


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_no_text_gives_a_name_that_leaves_the_folder(source: str, triple: str, arch: str) -> None:
    name = image_name(source, triple, arch, 3, "cubin")
    assert os.path.basename(name) == name
    assert name not in (".", "..")
    assert not name.startswith(("-", "."))
    assert len(name) < 256
    assert name.isascii()
    assert name.isprintable()


def test_target_ids_lose_their_colons_only() -> None:
    name = image_name("dir/host.o", "amdgcn-amd-amdhsa", "gfx90a:sramecc+:xnack-", 1, "hsaco")
    assert name == "host-amdgcn-amd-amdhsa-gfx90a_sramecc+_xnack-.1.hsaco"


def test_empty_parts_leave_no_dashes() -> None:
    assert image_name("my.pkg", "", "", 0, "") == "my.0"


def test_stems_and_words() -> None:
    assert [file_stem(path) for path in ("/usr/lib/libx.so.2", "a", ".hidden", "d/", "c:\\x\\y.o")] == [
        "libx.so",
        "a",
        ".hidden",
        "d",
        "y",
    ]
    assert [safe_word(text) for text in ("", "../..", "-rf", "a/b", "...")] == ["", "_..", "rf", "a_b", "_"]
