"""Containers that compilers spell in text: LLVM IR, assembly, and nvcc's C file with a fat binary."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import run

from fatpack.errors import HostError
from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, compiler_text, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

CUBINS = FIXTURES / "cuda" / "cubin"
FATBIN = (FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes()
BUNDLE = (FIXTURES / "clang_bundle" / "llvm-22-hip.bundle").read_bytes()
COMPRESSED = (FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle").read_bytes()
BINARIES = FIXTURES / "offload_binary" / "llvm-22-four.bin"

SOURCE = """
struct dim3 { unsigned x, y, z; };
extern "C" int %LaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
extern "C" int __%PushCallConfiguration(dim3, dim3, unsigned long, void *);
extern "C" int __%PopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);
__attribute__((global)) void k(int *p) { *p = 1; }
"""


def scanned(data: bytes, name: str = "k.s") -> list[FoundContainer | Finding]:
    return list(scan(BytesSource(data, name).view()))


def contents(path: Path) -> list[tuple[str, bytes]]:
    """Return the section and the bytes of each container of a file."""
    items = scanned(path.read_bytes(), path.name)
    found = [(item.section or "", item.view.tobytes()) for item in items if isinstance(item, FoundContainer)]
    assert all(item.host == "text" for item in items if isinstance(item, FoundContainer) and path.suffix != ".o")
    assert "FP1006" not in {item.code for item in items if isinstance(item, Finding)}
    return found


def ir(data: bytes, section: str = ".nv_fatbin") -> bytes:
    r"""Return a constant of LLVM IR: printed as printEscapedString does."""
    printed = "".join(map(chr, range(32, 127))).replace('"', "").replace("\\", "")
    spelled = "".join(
        chr(byte) if chr(byte) in printed else "\\\\" if byte == 0x5C else f"\\{byte:02X}" for byte in data
    )
    return f'@0 = private constant [{len(data)} x i8] c"{spelled}", section "{section}", align 8\n'.encode()


def ascii_line(data: bytes, directive: str = ".ascii") -> bytes:
    """Return a line of assembly as MCAsmStreamer prints it."""
    short = {8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 92: "\\\\"}
    letters = (short.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)
    return f'\t{directive}\t"{"".join(letters)}"\n'.encode()


@pytest.mark.reference
@pytest.mark.parametrize("model", ["cuda", "hip"])
def test_llvm_ir_and_assembly_have_the_containers_of_the_object(model: str, tmp_path: Path) -> None:
    source, binary = tmp_path / "k.cu", tmp_path / "k.bin"
    source.write_text(SOURCE.replace("%", model))
    binary.write_bytes(FATBIN if model == "cuda" else BUNDLE)
    options = ["-cc1", "-triple", "x86_64-unknown-linux-gnu", "-x", model, "-fcuda-include-gpubinary", binary]
    outputs = {"-emit-llvm": "k.ll", "-S": "k.s", "-emit-obj": "k.o"}
    for action, name in outputs.items():
        run("clang", *options, action, source, "-o", tmp_path / name)
    expected = contents(tmp_path / "k.o")
    assert len(expected) == 1
    assert contents(tmp_path / "k.ll") == contents(tmp_path / "k.s") == expected


@pytest.mark.reference
def test_embedded_offload_binaries_are_those_of_the_object(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("int x;\n")
    options = ["-cc1", "-triple", "x86_64-unknown-linux-gnu", "-x", "c", f"-fembed-offload-object={BINARIES}"]
    for action, name in {"-emit-llvm": "k.ll", "-S": "k.s", "-emit-obj": "k.o"}.items():
        run("clang", *options, action, tmp_path / "k.c", "-o", tmp_path / name)
    expected = contents(tmp_path / "k.o")
    assert len(expected) == 4
    assert contents(tmp_path / "k.ll") == contents(tmp_path / "k.s") == expected


@pytest.mark.reference
def test_the_c_file_of_fatbinary_has_its_fat_binary(tmp_path: Path) -> None:
    cubin, whole, embedded = CUBINS / "k1.cuda13.0.sm_90.cubin", tmp_path / "k.fatbin", tmp_path / "k.fatbin.c"
    image = f"--image3=kind=elf,sm=90,file={cubin}"
    run("fatbinary", f"--create={whole}", "-64", image, f"--embedded-fatbin={embedded}")
    assert contents(embedded) == [(".nv_fatbin", whole.read_bytes())]


@pytest.mark.parametrize("data", [FATBIN, BUNDLE, COMPRESSED, BINARIES.read_bytes()])
def test_every_container_is_decoded(data: bytes, tmp_path: Path) -> None:
    lines = {
        "k.ll": b'; ModuleID = "k"\n' + ir(b"text\\") + ir(data),
        "k.s": b'\t.section\t.nv_fatbin,"a",@progbits\n.L0:\n' + ascii_line(data, ".asciz") + b"\t.text\n",
        "parts.s": b".section .nv_fatbin\n"
        + b"".join(ascii_line(data[at : at + 50]) for at in range(0, len(data), 50)),
    }
    for name, text in lines.items():
        (tmp_path / name).write_bytes(text)
        found = contents(tmp_path / name)
        assert {section for section, _ in found} == {".nv_fatbin"}
        assert b"".join(own for _, own in found) == data, name


def test_numbers_of_every_size_are_read(tmp_path: Path) -> None:
    def numbers(directive: str, size: int, form: str) -> bytes:
        words = [int.from_bytes(FATBIN[at : at + size], "little") for at in range(0, 256, size)]
        return "".join(f'"\t{directive} {form.format(word)}\\n"  // why\n' for word in words).encode()

    rest = b'".zero 3"\n' if FATBIN[256:259] == bytes(3) else ascii_line(FATBIN[256:259])
    end = ascii_line(FATBIN[259:])
    for directive, size in ((".quad", 8), (".long", 4), (".8byte", 8), (".4byte", 4)):
        for form in ("{:#x}", "{}"):
            text = b'asm(\n".section .nv_fatbin, \\"a\\"\\n"\n' + numbers(directive, size, form) + rest + end
            (tmp_path / "k.fatbin.c").write_bytes(text)
            assert contents(tmp_path / "k.fatbin.c") == [(".nv_fatbin", FATBIN)]
    text = ascii_line(FATBIN[:8]) + numbers(".byte", 1, "{:#x}").split(b"\n", 8)[8] + rest + end
    (tmp_path / "k.s").write_bytes(text)
    assert contents(tmp_path / "k.s") == [("", FATBIN)]


def directives(data: bytes, directive: str, size: int, per_line: int = 4) -> list[bytes]:
    """Return lines of assembly with the bytes as numbers of a size."""
    data += bytes(-len(data) % size)
    words = [f"{int.from_bytes(data[at : at + size], 'little'):#x}" for at in range(0, len(data), size)]
    return [f"\t{directive} {', '.join(words[at : at + per_line])}\n".encode() for at in range(0, len(words), per_line)]


@pytest.mark.parametrize(
    "between", [b"\n", b"# why\n", b"\t// why\n", b"/* why */\n", b".L1:\n", b".L1: # why\n", b"\n\n \t\n"]
)
def test_lines_without_data_are_passed_over(between: bytes, tmp_path: Path) -> None:
    path = tmp_path / "k.s"
    path.write_bytes(b".section .nv_fatbin\n" + between.join(directives(FATBIN, ".quad", 8, 1)))
    ((section, data),) = contents(path)
    assert (section, data[: len(FATBIN)]) == (".nv_fatbin", FATBIN)


@pytest.mark.parametrize("per_line", [1, 8])
@pytest.mark.parametrize(
    ("directive", "size"), [(".byte", 1), (".value", 2), (".word", 2), (".hword", 2), (".word", 4), (".xword", 8)]
)
@pytest.mark.parametrize("whole", [FATBIN, BUNDLE, COMPRESSED, BINARIES.read_bytes()])
def test_a_container_begins_with_numbers_of_any_size(
    whole: bytes, directive: str, size: int, per_line: int, tmp_path: Path
) -> None:
    path = tmp_path / "k.s"
    path.write_bytes(b"".join(directives(whole, directive, size, per_line)))
    assert b"".join(data for _, data in contents(path))[: len(whole)] == whole


@pytest.mark.parametrize("data", [FATBIN, BUNDLE, COMPRESSED, BINARIES.read_bytes()[:0xB8]])
def test_a_container_of_which_a_part_is_not_decoded_is_one_finding(data: bytes) -> None:
    lines = directives(data, ".quad", 8, 1)
    items = scanned(b"".join((*lines[:20], b".quad symbol\n", *lines[20:])))
    assert [item.code if isinstance(item, Finding) else item for item in items] == ["FP1006"]
    *found, last = scanned(ascii_line(data) + b".text\n" + b"".join(lines[:-2]))
    assert {type(item) for item in found} == {FoundContainer}
    assert isinstance(last, Finding)
    assert last.code == "FP1006"


def test_data_after_another_label_is_not_part_of_a_container() -> None:
    text = b"".join(directives(FATBIN, ".quad", 8))
    for more, count in (
        (b".L1:\n.quad 5\n", 1),
        (b'.L1: .asciz "text"\n', 1),
        (b".L1:\n" + text + b".L2: .long 1\n", 2),
    ):
        items = scanned(text + more)
        assert [type(item) for item in items] == [FoundContainer] * count


@pytest.mark.parametrize("data", [FATBIN, BUNDLE, COMPRESSED, BINARIES.read_bytes()])
def test_llvm_ir_spells_printable_bytes_in_both_ways(data: bytes, tmp_path: Path) -> None:
    spelled = "".join(f"\\{byte:02X}" for byte in data)
    path = tmp_path / "k.ll"
    path.write_text(f'@0 = private constant [{len(data)} x i8] c"{spelled}", section ".nv_fatbin"\n')
    assert b"".join(own for _, own in contents(path)) == data


def test_lines_before_a_container_are_not_read_one_by_one() -> None:
    before = time.process_time()
    text = b".quad 1\n" * 500_000 + b".byte 80\n" * 100_000 + ascii_line(FATBIN)
    assert len(list(compiler_text.find_text_containers(BytesSource(text, "k.s").view()))) == 1
    assert time.process_time() - before < 4


def test_two_containers_have_their_own_sections() -> None:
    text = b".section .nv_fatbin\n" + ascii_line(FATBIN) + b'.section "__nv_relfatbin"\n' + ascii_line(FATBIN)
    found = [item for item in scanned(text) if isinstance(item, FoundContainer)]
    assert [item.section for item in found] == [".nv_fatbin", "__nv_relfatbin"]


@pytest.mark.parametrize(
    "text",
    [
        ir(FATBIN).replace(b"\\00", b"\\0x", 1),
        b'\t.ascii\t"P\\355U\\272',
        b".quad 0x00100001ba55ed50 + x\n",
        b".quad 0x00100001ba55ed50,,\n",
        b'@0 = private constant [4 x i8] [i8 80, i8 -19, i8 85, i8 -70], section ".nv_fatbin", align 8\n',
        b'@0 = private constant { i32, [2 x i8] } { i32 5, [2 x i8] c"ab" }, section ".hip_fatbin"\n',
    ],
)
def test_text_that_is_not_decoded_is_a_finding(text: bytes) -> None:
    items = scanned(text)
    assert [item.code for item in items if isinstance(item, Finding)] == ["FP1006"]
    assert len(items) == 1


@pytest.mark.parametrize("data", [FATBIN, BUNDLE, COMPRESSED, BINARIES.read_bytes()])
def test_escapes_and_numbers_of_other_bases_are_read(data: bytes, tmp_path: Path) -> None:
    """GNU as reads hexadecimal escapes and octal numbers; compilers write neither, people and scripts do."""
    strings = b"".join(b'.ascii "' + b"".join(b"\\x%02X" % byte for byte in part) + b'"\n' for part in parts(data, 50))
    numbers = b"".join(b".byte " + b",".join(b"0%o" % byte for byte in part) + b"\n" for part in parts(data, 8))
    for text in (strings, numbers):
        (tmp_path / "k.s").write_bytes(text)
        assert b"".join(found for _, found in contents(tmp_path / "k.s")) == data


def parts(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_a_variable_of_llvm_ir_is_read_as_a_constant_is() -> None:
    items = scanned(ir(FATBIN).replace(b" constant ", b" global "))
    assert [isinstance(item, FoundContainer) for item in items] == [True]


def test_zeros_are_bounded() -> None:
    start = ascii_line(FATBIN[:4])
    text = (start + b".zero 33554432\n.text\n") * 9
    view = BytesSource(text, "k.s").view()
    assert sum(len(found.data) for found in compiler_text.find_text_containers(view)) == (32 << 20) + 9 * 4


@pytest.mark.parametrize(
    "part",
    [b'\t.ascii\t"P\\355U\\272"\n', b'.ascii "', b"\\", b'\\"', b'.section "', b".quad 1\n", ir(FATBIN[:16])],
    ids=["containers", "starts", "backslashes", "quotation marks", "sections", "numbers", "constants"],
)
def test_the_time_grows_with_the_text_alone(part: bytes) -> None:
    def seconds(size: int) -> float:
        text = ascii_line(FATBIN[:16]).rstrip(b"\n") + b"\n" + part * (size // len(part))
        times = []
        for _ in range(3):
            before = time.process_time()
            list(compiler_text.find_text_containers(BytesSource(text, "k.s").view()))
            times.append(time.process_time() - before)
        return min(times)

    # 16 times the text: 16 times the time, 256 times if it grew with the square; the rest is for a busy machine.
    assert seconds(1 << 20) < 100 * max(seconds(1 << 16), 0.01)


def test_text_is_not_edited() -> None:
    from fatpack.commands.slim.remove import remove_images
    from fatpack.selectors.select import Selector

    for text in (ir(FATBIN), b".section .nv_fatbin\n" + ascii_line(FATBIN)):
        with pytest.raises(HostError, match="a string in a text, which is not edited"):
            remove_images(BytesSource(text, "k.s").view(), Selector(form="ptx"))


def test_a_file_of_bytes_is_no_text_after_a_zero() -> None:
    spelled = b'@x = constant [9 x i8] c"\\7FELF\\02\\01\\01\\00\\00"\n'
    for data, expected in ((b"a" * 600 + b"\n" + spelled, 1), (b"a" * 600 + b"\0\n" + spelled, 0)):
        found = [item for item in scanned(data) if isinstance(item, Finding) and item.code == "FP1006"]
        assert len(found) == expected
