"""``embed`` and ``replace`` from Python: a damaged container goes into no host."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack

HOST = FIXTURES / "demo" / "host.o"
FOUR = FIXTURES / "offload_binary" / "llvm-22-four.bin"


def test_a_damaged_container_is_refused_unless_forced(tmp_path: Path) -> None:
    cut, fat, output = tmp_path / "cut.bin", tmp_path / "fat.o", tmp_path / "x.o"
    cut.write_bytes(FOUR.read_bytes()[:-100])
    fatpack.embed(HOST, FOUR, fat)
    for edit, host in ((fatpack.embed, HOST), (fatpack.replace, fat)):
        with pytest.raises(fatpack.FormatError, match="nothing was written; force=True puts it in") as refused:
            edit(host, cut, output)
        assert refused.value.chain == (str(cut),)
        assert not output.exists()
        edit(host, cut, output, force=True)
        output.unlink()
