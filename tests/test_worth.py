"""``tools.worth``: the reader of disassembly says the same of stubs as fatpack, and something else of real kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference

from tools import worth

SOURCE = """
.version 8.7
.target sm_%s
.address_size 64
.visible .entry hollow(.param .u64 p)
{
%s
}
.visible .entry busy(.param .u64 p)
{
.reg .b64 %%rd<2>;
ld.param.u64 %%rd1, [p];
st.global.u32 [%%rd1], 3;
ret;
}
"""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("MOV R1, c[0x0][0x28]\nEXIT", "returns"),
        ("LDC R1, c[0x0][0x37c]\nNOP\nBPT.TRAP 0x1", "traps"),
        ("s_endpgm", "returns"),
        ("LDC R1, c[0x0][0x37c]\nSTG.E [R2], R3", "STG.E [R2], R3"),
        ("", "nothing was printed"),
    ],
)
def test_words(text: str, word: str) -> None:
    assert worth.word_for(text.splitlines()) == word


@pytest.mark.reference
@pytest.mark.parametrize(("body", "word"), [("ret;", "returns"), ("trap;", "traps"), ("L: bra L;", "loops")])
def test_what_is_called_certain_is_confirmed(
    tmp_path: Path, body: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.builders.fatbin import entry, fatbin

    reference.tool("nvdisasm")
    cubins = []
    for arch, text in (("80", body), ("90", SOURCE.partition("busy")[2].partition("{")[2].partition("}")[0] % ())):
        source, cubin = tmp_path / f"{arch}.ptx", tmp_path / f"{arch}.cubin"
        source.write_text(SOURCE % (arch, text))
        reference.run("ptxas", f"-arch=sm_{arch}", "-o", str(cubin), str(source))
        cubins.append(entry(cubin.read_bytes(), sm=int(arch)))
    path = tmp_path / "x.fatbin"
    path.write_bytes(fatbin(*cubins))
    sums, found = worth.measure(str(path))
    assert (sums.certain, [kernel.body for kernel in found]) == (1, [word])
    assert worth.main([str(path)]) == 0
    assert "1 of 1 disassembled kernels confirmed" in capsys.readouterr().out
