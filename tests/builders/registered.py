"""Linked programs whose records lead to containers of real formats, and which print what they find through them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import reference

CUDA, HIP = 0x466243B1, 0x48495046


@dataclass(frozen=True)
class Part:
    """A container in a section: how many ``records`` lead to it, and how far behind its start the first one leads."""

    content: bytes
    records: int = 1
    behind: int = 0
    section: str = ".nv_fatbin"
    align: int = 8
    magic: int = CUDA
    is_global: bool = False


_ASSEMBLY = """
        .section {section}, "a"
        .balign {align}
        {visible}
container{number}:
        .incbin "{file}"
        .size container{number}, . - container{number}
        .type container{number}, @object
"""

_RECORD = """
        .section {records}, "aw"
        .balign 8
        .4byte {magic}, 1
        .8byte container{number} + {behind}
        .8byte 0
"""

#: prints, for each record, kind and sm of every entry of the fat binary that it leads to
_SHOW = r"""
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
extern const struct record { u32 magic, version; const u8 *data; void *more; } records[]
    __attribute__((visibility("hidden")));
int printf(const char *, ...);
int show(void) {
    for (int at = 0; at < COUNT; at++) {
        const u8 *data = records[at].data;
        printf("%d:", at);
        if (*(const u32 *)data == 0xba55ed50u) {
            const u8 *end = data + 16 + *(const u64 *)(data + 8);
            for (const u8 *at = data + 16; at < end; at += *(const u32 *)(at + 4) + *(const u64 *)(at + 8))
                printf(" %d/%d", *(const u16 *)at, *(const u32 *)(at + 28));
        } else
            printf(" %.4s", data);
        printf("\n");
    }
    return 0;
}
"""


def linked(folder: Path, parts: Sequence[Part], *options: str, library: bool = False, tail: str = "") -> Path:
    """Return a program of some containers, or a library; ``tail`` is more assembly."""
    text = ""
    records: dict[int, str] = {CUDA: ".nvFatBinSegment", HIP: ".hipFatBinSegment"}
    for number, part in enumerate(parts):
        file = folder / f"container{number}"
        file.write_bytes(part.content)
        visible = f".globl container{number}" if part.is_global else ""
        text += _ASSEMBLY.format(section=part.section, align=part.align, visible=visible, number=number, file=file)
        for again in range(part.records):
            behind = part.behind if not again else 0
            text += _RECORD.format(records=records[part.magic], magic=part.magic, number=number, behind=behind)
    # Records of both models follow each other where the program looks: a test has one model.
    section = records[parts[0].magic]
    text += tail + '\n        .section .note.GNU-stack, "", @progbits\n'
    assembly = folder / "data.s"
    assembly.write_text(
        f'        .section {section}, "aw"\n        .hidden records\n        .globl records\nrecords:\n{text}'
    )
    count = sum(part.records for part in parts)
    source = folder / "show.c"
    main = "" if library else "int main(void) { return show(); }\n"
    source.write_text(f"#define COUNT {count}\n{_SHOW}{main}")
    out = folder / ("libx.so" if library else "program")
    kind = ["-shared", "-fPIC"] if library else []
    reference.run("gcc", *kind, "-O1", *options, source, assembly, "-o", out)
    return out


def printed(program: Path) -> list[str]:
    """Return the lines that a program prints."""
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
