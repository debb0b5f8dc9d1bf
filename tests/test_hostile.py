"""Small files that once made much work, and command lines that once ended in a traceback. Each is a named defect."""

from __future__ import annotations

import io
import os
import resource
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import ImageFile, Selector
from fatpack.commands.inspect.record import make_file_record
from fatpack.errors import FatpackError, UsageError
from fatpack.formats import offload_binary
from fatpack.formats.offload_binary.layout import MAGIC, layouts_for_order
from fatpack.io.source import Span
from fatpack.model import Container
from fatpack.scanner import scan
from fatpack.scanner.carve import MagicSearcher
from fatpack.testing.helpers import join_pieces, make_image, make_view

FOUR = FIXTURES / "offload_binary" / "llvm-22-four.bin"


def shared(data: bytes, count: int) -> bytes:
    """Return a binary of version 2 whose entries all have the same image."""
    tables = layouts_for_order()
    table_at = 0x20 + 40 * count
    image_at = table_at + 8
    entry = tables.entry.pack(1, 0, 0, 0, 0, image_at, len(data))
    size = image_at + len(data) + -(image_at + len(data)) % 8
    header = tables.header[2].pack(MAGIC, 2, size, 0x20, count)
    return (header + entry * count + bytes(8) + data).ljust(size, b"\0")


def count_images(containers: list[dict[str, object]]) -> int:
    total = 0
    for container in containers:
        for item in container["images"]:  # type: ignore[attr-defined]
            total += 1 + count_images(item["containers"])
    return total


def test_entries_that_share_a_nested_container_do_not_multiply_it() -> None:
    data = b"nothing!"
    for _ in range(6):
        data = shared(data, 10)
    record = make_file_record(make_view(data))
    assert count_images(record["containers"]) == 60
    with fatpack.open(data) as file:
        assert len(list(file.images())) == 60


def test_one_long_value_shared_by_many_keys_is_refused() -> None:
    tables, count, length = layouts_for_order(), 3000, 100_000
    strings_at = 0x48
    table_at = strings_at + 24 * count
    keys = b"".join(b"%05d\0" % number for number in range(count))
    value_at = table_at + len(keys)
    entries = b"".join(tables.strings[2].pack(table_at + 6 * number, value_at, length) for number in range(count))
    size = value_at + length + -(value_at + length) % 8
    header = tables.header[2].pack(MAGIC, 2, size, 0x20, 1)
    data = header + tables.entry.pack(0, 0, 0, strings_at, count, value_at, 0) + entries + keys + b"v" * length
    (found,) = scan(make_view(data.ljust(size, b"\0")))
    assert isinstance(found, fatpack.Finding)
    assert "many times the size" in found.message


def test_kernels_of_a_shared_image_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from fatpack import images

    calls: list[int] = []
    real = images.kernels
    monkeypatch.setattr(images, "kernels", lambda view, form: calls.append(1) or real(view, form))
    ptx = (FIXTURES / "cuda" / "ptx" / "k1.compute_80.ptx").read_bytes()
    record = make_file_record(make_view(shared(ptx, 50)))
    assert len(calls) == 1
    assert {len(item["kernels"]) for item in record["containers"][0]["images"]} == {3}


def test_containers_with_zeros_between_them_are_found_without_any_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    real = MagicSearcher.after
    monkeypatch.setattr(MagicSearcher, "after", lambda self, at: searches.append(at) or real(self, at))
    one = FOUR.read_bytes()
    # A warning for the zeros before every binary but the first, and a note for those at the end.
    assert len(list(scan(make_view((one + bytes(9000)) * 20)))) == 4 * 20 + 19 + 1
    assert not searches
    assert len(list(scan(make_view(one + bytes(9000) + b"rubbish!" + one)))) == 4 * 2 + 1
    assert searches


def test_a_rewrite_does_not_multiply_shared_images(tmp_path: Path) -> None:
    container = offload_binary.parse(make_view(shared(bytes(5000), 20)))
    with pytest.raises(fatpack.Unsupported, match="share their bytes"):
        join_pieces(offload_binary.write(container.replace(images=container.images[1:])))
    (tmp_path / "shared.bin").write_bytes(shared(bytes(200_000), 20))
    with pytest.raises(UsageError, match="share bytes"):
        fatpack.extract(tmp_path / "shared.bin", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_images_on_top_of_each_other_are_neither_rewritten_nor_converted(tmp_path: Path) -> None:
    ids = [b"hip-amdgcn-amd-amdhsa--gfx%d" % number for number in range(20)]
    table_size = 32 + sum(24 + len(id) for id in ids)
    table = b"".join(struct.pack("<QQQ", table_size, 200_000, len(id)) + id for id in ids)
    path = tmp_path / "shared.bundle"
    path.write_bytes(b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids)) + table + bytes(200_000))
    with pytest.raises(fatpack.Unsupported, match=r"share their bytes; written separately they .* 3800000 bytes"):
        fatpack.remove(path, tmp_path / "out", Selector(index=0))
    for format in ("offload-binary", "bundle"):
        with pytest.raises(fatpack.Unsupported, match="written separately they would take 4000000 bytes"):
            fatpack.convert(path, tmp_path / "out", format=format)
    assert not (tmp_path / "out").exists()


def test_compressed_bombs_inside_a_compressed_container_are_refused_or_forgotten(tmp_path: Path) -> None:
    inner = Container("", 3, (make_image(bytes(3 << 20)),), Span(0, 0), attrs={"compression": "zstd"})
    bomb = join_pieces(offload_binary.write(inner))
    outer = Container("", 3, (make_image(bomb * 400),), Span(0, 0), attrs={"compression": "zlib"})
    program = (
        "import sys\nfrom fatpack.scanner import scan\nfrom fatpack.io.open import open_source\n"
        "list(scan(open_source(sys.argv[1]).view()))\n"
        # Not getrusage's: Linux counts what the parent had when it started this program.
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    path = tmp_path / "bomb.bin"
    path.write_bytes(join_pieces(offload_binary.write(outer)))
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True, env=_env())
    assert int(done.stdout) < 500_000  # kB; kept all at once they are 1.2 GB


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def command(*arguments: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    program = "import sys; from fatpack.main import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=cwd, env=_env(), stderr=subprocess.PIPE, text=True, **options
    )  # type: ignore[call-overload]


def test_more_images_than_open_files_are_packed(tmp_path: Path) -> None:
    (tmp_path / "a.cubin").write_bytes(bytes(10_000))
    options = ["--image=file=a.cubin,triple=x"] * 300
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # noqa: E731
    for version in ("1", "2"):
        done = command(
            "pack", *options, "-o", f"v{version}", f"--container-version={version}", cwd=tmp_path, preexec_fn=limit
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "v2").stat().st_size > 3_000_000


@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ("inspect {four} >&-", 5),
        ("inspect --json {four} >&-", 5),
        ("--version >&-", 5),
        ("inspect nope 2>&-", 5),
        ("inspect nope 2>/dev/full", 5),
        ("inspect - <&-", 5),
        ("tool clang-offload-bundler -type=bc -list -input=- <&-", 1),
        ("tool llvm-offload-binary -o out --image=file=-,triple=t <&-", 1),
        ("tool llvm-offload-binary -o - --image=file={four} >&-", 1),
    ],
)
def test_closed_standard_streams_are_no_traceback(tmp_path: Path, shell: str, code: int) -> None:
    program = f"{sys.executable} -c 'import sys; from fatpack.main import main; sys.exit(main())'"
    done = subprocess.run(
        ["sh", "-c", f"{program} {shell.format(four=FOUR)}"], cwd=tmp_path, env=_env(), capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == code


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("arguments", [["inspect"], ["tool", "llvm-objdump", "--offloading"], ["check", "--json"]])
def test_names_are_printed_whatever_the_encoding_of_the_terminal(
    tmp_path: Path, encoding: str, arguments: list[str]
) -> None:
    shutil.copy(FIXTURES / "elf" / "clang-22-openmp-gfx90a.o", tmp_path / "x→y")
    done = subprocess.run(
        [sys.executable, "-m", "fatpack", *arguments, "x→y"],
        cwd=tmp_path,
        env={**_env(), "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert b"x\\u2192y" in done.stdout


def test_in_place_needs_a_file(tmp_path: Path) -> None:
    (tmp_path / "<stdin>").write_text("precious")
    with FOUR.open() as stdin:
        done = command("remove", "-", "--in-place", cwd=tmp_path, stdin=stdin)
    assert done.returncode == 2
    assert "--in-place needs a file" in done.stderr
    assert (tmp_path / "<stdin>").read_text() == "precious"


@pytest.mark.parametrize("arguments", [["@r"], ["tool", "llvm-offload-binary", "@r"]])
def test_a_response_file_with_an_open_quote_is_a_usage_error(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "r").write_text('"x')
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "x", "--config"],
        ["link-inputs", "-d", "out"],
        ["tool", "--install"],
        ["inspect"],
        ["check", "x", "--json"],
    ],
)
def test_a_response_file_with_a_nul_is_a_usage_error(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "words").write_bytes(b"a\0b")
    done = subprocess.run([sys.executable, "-m", "fatpack", *arguments, "@words"], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stderr.decode()) == (
        2,
        "fatpack: error: @words: holds a NUL character; a response file is text, with words in it\n",
    )


def test_a_nul_in_a_path_is_a_usage_error(tmp_path: Path) -> None:
    for call in (
        lambda: fatpack.open("a\0b"),
        lambda: fatpack.pack([ImageFile(b"x", triple="t")], "a\0b"),
        lambda: fatpack.extract(FOUR, f"{tmp_path}/a\0b"),
    ):
        with pytest.raises(FatpackError, match="NUL"):
            call()


def test_a_sparse_file_is_scanned_without_reading_its_holes(tmp_path: Path) -> None:
    path = tmp_path / "sparse.bin"
    path.write_bytes(FOUR.read_bytes())
    os.truncate(path, 100 << 30)
    with fatpack.open(path) as file:
        assert len(file.containers) == 4
        assert [finding.code for finding in file.findings if finding.severity != "note"] == []


def test_an_output_that_takes_a_little_at_a_time_gets_everything() -> None:
    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            super().__init__()
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, part: object) -> int:
            piece = bytes(part)[:10]  # type: ignore[call-overload]
            self.data += piece
            return len(piece)

    slow, whole = Slow(), io.BytesIO()
    for output in (slow, whole):
        fatpack.pack([ImageFile(b"abc" * 50, triple="x")], output)  # type: ignore[arg-type]
    assert slow.data == whole.getvalue()


def test_a_selector_takes_one_pattern_as_a_string() -> None:
    with fatpack.open(FOUR) as file:
        assert len(list(file.images(Selector(arch="sm_70")))) == 1


def test_a_long_name_in_any_script_can_be_written(tmp_path: Path) -> None:
    name = "中" * 84
    fatpack.pack([ImageFile(b"x", triple="t")], tmp_path / name)
    assert (tmp_path / name).exists()


def test_one_wide_cell_does_not_widen_every_row() -> None:
    from fatpack.text.style import align_columns

    lines = align_columns([["x" * 100_000, "y"], *[["a", "b"]] * 100])
    assert sum(map(len, lines)) < 110_000
