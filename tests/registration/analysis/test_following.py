"""Small pieces of code: values at joins, results of instructions, and places that hold addresses."""

from __future__ import annotations

import random
import struct
from functools import lru_cache

import pytest
from tests import reference

from fatpack.binary.memory import MemorySection
from fatpack.io.source import BytesSource
from fatpack.registration.analysis import elf_program, references
from fatpack.registration.analysis.aarch64 import Aarch64Follower
from fatpack.registration.analysis.calls import ProgramCalls
from fatpack.registration.analysis.registers import STACK, LinkedProgram, RegisterState
from fatpack.registration.analysis.x86 import InstructionRuns

CODE, DATA = 0x10000, 0x900000
FUNCTION = CODE + 0x4000


def program(code: bytes, machine: str = "x86-64", *, is_windows: bool = False) -> LinkedProgram:
    code = code.ljust(0x5000, b"\x90")
    data = b"name\0".ljust(64, b"\0")
    view = BytesSource(code + data).view()
    sections = [
        MemorySection(1, ".text", CODE, len(code), view.slice(0, len(code)), True),
        MemorySection(2, ".rodata", DATA, len(data), view.slice(len(code), len(data)), False),
    ]
    made = LinkedProgram(view, machine, 8, sections, is_windows=is_windows)
    made.set_starts([CODE, FUNCTION])
    return made


def called(made: LinkedProgram, start: int = CODE) -> list[tuple[int | None, ...]]:
    """Return the arguments of all calls of a function by another."""
    function = made.function_at(start)
    assert function is not None
    return [call.arguments for call in ProgramCalls(made).calls_of(function) if call.target == FUNCTION]


#: bytes that each case has
STEP = 256


@lru_cache
def cases(target: str) -> LinkedProgram:
    """Return a program with all cases for a machine, one after the other."""
    texts = [text for text, _, _ in CASES[target].values()]
    code = assembled("".join(f".p2align 8\n{text}\n" for text in texts), target)
    made = program(code, "aarch64" if "aarch64" in target else "x86-64")
    made.set_starts([*range(CODE, CODE + STEP * len(texts), STEP), FUNCTION])
    return made


def assembled(text: str, target: str) -> bytes:
    """Return the code of some assembly, with ``f`` and ``d`` where the function and the data are."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.s").write_text(f"{text}\n")
        reference.run("clang", f"--target={target}", "-c", "a.s", "-o", "a.o", cwd=folder)
        places = [f"--defsym=f={FUNCTION}", f"--defsym=d={DATA}", "--image-base=0x1000", "-Ttext", hex(CODE)]
        reference.run("ld.lld", *places, "-e", "0", "a.o", "-o", "a", cwd=folder)
        reference.run("llvm-objcopy", "-O", "binary", "-j", ".text", "a", "a.bin", cwd=folder)
        return (folder / "a.bin").read_bytes()


X86 = {
    "plain": ("lea d(%rip), %rdi; call f", 0, DATA),
    "through the stack": ("sub $40, %rsp; lea d(%rip), %rax; mov %rax, 8(%rsp); mov 8(%rsp), %rdi; call f", 0, DATA),
    "by the frame": ("push %rbp; mov %rsp, %rbp; movq $7, -8(%rbp); mov -8(%rbp), %rdi; call f", 0, 7),
    "pushed and popped": ("lea d(%rip), %rax; push %rax; pop %rdi; call f", 0, DATA),
    "the stack moved": ("push $7; sub $16, %rsp; add $16, %rsp; pop %rdi; call f", 0, 7),
    "aligned": ("push $7; and $-16, %rsp; pop %rdi; call f", 0, None),
    "both ways agree": ("mov $7, %edi; test %eax, %eax; je 1f; mov $7, %edi; 1: call f", 0, 7),
    "ways differ": ("mov $7, %edi; test %eax, %eax; je 1f; mov $8, %edi; 1: call f", 0, None),
    "if and else": ("test %eax, %eax; je 1f; mov $7, %edi; jmp 2f; 1: mov $7, %edi; 2: call f", 0, 7),
    "from elsewhere": ("mov $7, %ebx; jmp 1f; 2: mov %rbx, %rdi; call f; ret; 1: inc %rbx; jmp 2b", 0, None),
    "narrow": ("mov $0x12345, %edi; mov $1, %dil; call f", 0, None),
    "half of it": ("mov $-1, %rdi; mov %edi, %edi; call f", 0, 0xFFFFFFFF),
    "stored over": ("sub $40, %rsp; movq $7, (%rsp); movl $1, 4(%rsp); mov (%rsp), %rdi; call f", 0, None),
    "forgotten after a call": ("mov $7, %edi; call f + 64; call f", 0, None),
    "kept by a call": ("mov $7, %ebx; call f + 64; mov %rbx, %rdi; call f", 0, 7),
    "handed on": (
        "sub $40, %rsp; movq $7, 8(%rsp); lea 8(%rsp), %rdi; call f + 64; mov 8(%rsp), %rdi; call f",
        0,
        None,
    ),
    "at the end": ("lea d(%rip), %rsi; jmp f", 1, DATA),
    "through a register": ("lea f(%rip), %rax; mov $7, %edi; call *%rax", 0, 7),
}
A64_CASES = {
    "plain": ("adrp x0, d; add x0, x0, :lo12:d; bl f", 0, DATA),
    "near": ("adr x1, 1f; mov x0, x1; adr x2, 1f; sub x0, x0, x2; 1: bl f", 0, 0),
    "wide": ("movz x0, #0x9, lsl 16; movk x0, #0x1; bl f", 0, 0x90001),
    "negative": ("movn w0, #0; bl f", 0, 0xFFFFFFFF),
    "through the stack": ("sub sp, sp, #32; mov x8, #7; str x8, [sp, #8]; ldr x0, [sp, #8]; bl f", 0, 7),
    "a pair": ("mov x8, #7; mov x9, #8; stp x8, x9, [sp, #-32]!; ldp x1, x0, [sp], #32; bl f", 0, 8),
    "an index": ("sub sp, sp, #32; mov x1, #8; mov x8, #7; str x8, [sp, x1]; ldr x0, [sp, #8]; bl f", 0, 7),
    "an unknown index": ("mov x8, #7; str x8, [sp, #8]; ldr x0, [sp, x1]; bl f", 0, None),
    "both ways agree": ("mov x0, #7; cbz w9, 1f; mov x0, #7; 1: bl f", 0, 7),
    "ways differ": ("mov x0, #7; cbz w9, 1f; mov x0, #8; 1: bl f", 0, None),
    "half of it": ("mov x0, #-1; mov w0, w0; bl f", 0, 0xFFFFFFFF),
    "stored over": ("sub sp, sp, #32; mov x8, #7; str x8, [sp]; str w9, [sp, #4]; ldr x0, [sp]; bl f", 0, None),
    "forgotten after a call": ("mov x0, #7; bl f + 64; bl f", 0, None),
    "kept by a call": ("mov x19, #7; bl f + 64; mov x0, x19; bl f", 0, 7),
    "a mask": ("mov x0, #0xff00ff00ff00ff; bl f", 0, 0xFF00FF00FF00FF),
    "loaded over": ("mov x0, #7; ldrb w0, [x9]; bl f", 0, None),
    "at the end": ("adrp x0, d; add x0, x0, :lo12:d; b f", 0, DATA),
}


CASES = {"x86_64-linux-gnu": X86, "aarch64-linux-gnu": A64_CASES}


@pytest.mark.reference
@pytest.mark.parametrize(("target", "name"), [(target, name) for target in CASES for name in CASES[target]])
def test_constants_in_code(target: str, name: str) -> None:
    if "x86" in target:
        reference.package("capstone")
    _, argument, value = CASES[target][name]
    start = CODE + STEP * list(CASES[target]).index(name)
    assert called(cases(target), start)[-1][argument] == value


@pytest.mark.reference
def test_runs_are_read_as_they_are_followed() -> None:
    reference.package("capstone")
    text = """
        lea d(%rip), %rdx; mov %rdx, %rcx; lea d + 8(%rip), %rsi; mov $7, %edi; push $0; xor %r8d, %r8d; call f
        mov %rbx, %rdi; mov 8(%rsp), %rsi; mov $-1, %rdx; movabs $0x123456789ab, %rcx; call f
        movups %xmm0, 16(%rsp,%rax,8); cmpl $3, d(%rip); je 1f; lea d(%rip), %rdi; 1: call *%rax
        lea d(%rip), %rdi; call f
    """
    code = assembled(text, "x86_64-linux-gnu")
    runs = InstructionRuns(code, CODE, (7, 6, 2, 1), lambda _: None)
    section = program(code).sections[0]
    start, found = 0, []
    for at, after, _ in references.find_calls(program(code), section, 0, len(code), [FUNCTION]):
        found.append(runs.values(start, at - CODE))
        start = after - CODE
    assert found == [list(each[:4]) for each in called(program(code))]
    assert found[0] == [7, DATA + 8, DATA, DATA]
    assert found[1] == [None, None, 0xFFFFFFFFFFFFFFFF, 0x123456789AB]
    assert found[2] is not None
    assert found[2][0] == DATA


def test_a_run_with_an_unknown_instruction_is_not_read() -> None:
    code = b"\x48\x8d\x3d\0\0\0\0" + b"\x0f\x01\xd0" + b"\xe8\0\0\0\0"
    assert InstructionRuns(code, 0, (7,), lambda _: None).values(0, 10) is None
    assert InstructionRuns(code, 0, (7,), lambda _: None).values(10, 10) == [None]


@pytest.mark.parametrize("machine", ["x86-64", "aarch64"])
def test_the_search_finds_every_call(machine: str) -> None:
    chance = random.Random(machine)
    code = bytearray(chance.randbytes(0x5000))
    targets = [CODE + 4 * chance.randrange(0x1000) for _ in range(5)] + [CODE - 0x40000, CODE + 0x7000000]
    expected = set()
    for _ in range(200):
        at = 4 * chance.randrange(0x1300)
        target = chance.choice(targets)
        if machine == "x86-64":
            code[at : at + 5] = b"\xe8" + struct.pack("<i", target - CODE - at - 5)
        else:
            code[at : at + 4] = struct.pack("<I", 0x94000000 | (target - CODE - at) // 4 & 0x3FFFFFF)
    for at in range(0, len(code) - 4, 1 if machine == "x86-64" else 4):
        if machine == "x86-64" and code[at] in (0xE8, 0xE9):
            to = CODE + at + 5 + struct.unpack_from("<i", code, at + 1)[0]
        elif machine == "aarch64" and code[at + 3] & 0x7C == 0x14:
            distance = struct.unpack_from("<I", code, at)[0] & 0x3FFFFFF
            to = CODE + at + 4 * (distance - (1 << 26) if distance >> 25 else distance)
        else:
            continue
        expected |= {(CODE + at, to)} if to in targets else set()
    made = program(bytes(code), machine)
    found = references.find_calls(made, made.sections[0], 0, len(code), targets)
    assert {(at, to) for at, _, to in found} == expected
    assert len(expected) > 100


@pytest.mark.parametrize("distance", [0x12345, -0x54321, 0x1234567, -0x7654321])
def test_the_search_finds_addresses_that_are_made_of_two_instructions(distance: int) -> None:
    at, target = 0x100, CODE + 0x100 + distance
    page = (target >> 12) - (CODE + at >> 12) & 0x1FFFFF
    code = bytearray(b"\x10" * 0x5000)  # what looks like the upper half of an instruction everywhere
    adrp = 0x90000008 | (page & 3) << 29 | page >> 2 << 5
    code[at : at + 8] = struct.pack("<II", adrp, 0x91000108 | (target & 0xFFF) << 10)
    made = program(bytes(code), "aarch64")
    assert (CODE + at, target) in set(references.find_code_references(made, [target]))


def test_ways_that_meet_hold_what_they_agree_on() -> None:
    state = RegisterState((0, 1), (0, 1), 31)
    state.put(0, 5)
    state.put(19, 6)
    state.store(STACK + 8, 8, 7)
    state.branch(0, 16)
    state.put(0, 6)
    state.arrive(16)
    assert (state.get(0), state.get(19), state.load(STACK + 8, 8)) == (None, 6, 7)
    state.leave()
    state.arrive(20)
    assert (state.get(19), state.load(STACK + 8, 8)) == (None, None)


#: loops over a table that starts at ``d`` and ends at ``{end}``; ``{more}`` comes after
LOOPS = {
    "x86_64-linux-gnu": "lea d(%rip), %rbx; lea {end}(%rip), %r13; cmp %r13, %rbx; je 2f; 1: mov 16(%rbx), %rsi;"
    " call f; add $56, %rbx; cmp %r13, %rbx; jne 1b; 2: {more}; ret",
    "aarch64-linux-gnu": "adrp x19, d; add x19, x19, :lo12:d; adrp x20, {end}; add x20, x20, :lo12:{end}; cmp x19, x20;"
    " b.eq 2f; 1: ldr x1, [x19, #16]; bl f; add x19, x19, #56; cmp x19, x20; b.ne 1b; 2: {more}; ret",
}
BACK = {"x86_64-linux-gnu": "je 1b", "aarch64-linux-gnu": "cbz x0, 1b"}


@pytest.mark.reference
@pytest.mark.parametrize("target", LOOPS)
def test_a_loop_over_an_empty_table_is_never_executed(target: str) -> None:
    machine = "aarch64" if "aarch64" in target else "x86-64"
    for end, more, count in (("d", "nop", 0), ("d + 56", "nop", 1), ("d", BACK[target], 1)):
        text = LOOPS[target].format(end=end, more=more)
        made = program(assembled(text, target), machine)
        made.imports[FUNCTION] = "__cudaRegisterFunction"
        sites = ProgramCalls(made).sites()
        assert (len(sites.sites), sites.skipped) == (count, 1 - count), (end, more)


def test_frames_are_walked_where_no_table_of_them_is() -> None:
    common = struct.pack("<II", 0x14, 0) + b"\1zR\0\1\x78\x10\1\x1b\x0c\7\x08\x90\1\0\0"
    frames = common
    for start in (CODE, FUNCTION):
        place = DATA + len(frames) + 8
        frames += struct.pack("<IIiI", 0x14, len(frames) + 4, start - place, 16) + bytes(8)
    view = BytesSource(frames + bytes(4)).view()
    section = MemorySection(1, ".eh_frame", DATA, len(view), view, False)
    made = LinkedProgram(view, "x86-64", 8, [section], is_windows=False)
    assert list(elf_program.function_starts(made)) == [CODE, FUNCTION]


def test_code_that_is_no_code_ends() -> None:
    made = program(random.Random(3).randbytes(0x4000), "aarch64")
    Aarch64Follower(made).follow(random.Random(4).randbytes(0x4000), CODE)
