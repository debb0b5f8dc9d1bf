"""The command line and the library give the same answers to the same questions, also to wrong ones.

Each question is a command line and a call of the library. They agree on the exit code, on the bytes that are written,
and on the message; a message names options as each of them spells them (``--max-growth``, ``max_growth``).
"""

from __future__ import annotations

import re
import shutil
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.builders import releases
from tests.builders.archive import member
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.commands.convert.convert import LossyConversion
from fatpack.errors import FatpackError
from fatpack.exit_codes import FINDINGS, FINE, MALFORMED, error_message, exit_code

if TYPE_CHECKING:
    from fatpack.library.arguments import Output

COPY = [sys.executable, "-c", "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])", "{in}", "{out}"]
LONGER = [sys.executable, "-c", "import sys; a, b = sys.argv[1:]; open(b, 'wb').write(open(a, 'rb').read() * 9)"]
LONGER += ["{in}", "{out}"]
FAT_WHEEL = f"{releases.NAME}.whl"
IMAGE = library.ImageFile("a.cubin", "nvptx64-nvidia-cuda", "sm_80", "cuda")
EMPTY = library.ImageFile("empty")
STATED = "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"


class Question(NamedTuple):
    """A command line without its output, which comes after the option ``to``, and the same call of the library."""

    arguments: list[str]
    call: Callable[[Output], Any]
    to: str = "-o"

    def __repr__(self) -> str:
        return " ".join(word for word in self.arguments if word not in (*COPY, *LONGER)).replace("/", ":") or "nothing"


def ask(words: str, call: Callable[[Output], Any], *more: str, to: str = "-o") -> Question:
    return Question([*words.split(), *more], call, to)


QUESTIONS = [
    # slim
    ask("slim lib.so --for sm_80", lambda to: library.slim("lib.so", to, devices="sm_80")),
    ask(
        "slim lib.so --drop sm_80 --keep-ptx none", lambda to: library.slim("lib.so", to, drop="sm_80", keep_ptx="none")
    ),
    ask("slim pkg.bin --drop sm_*,gfx*", lambda to: library.slim("pkg.bin", to, drop="sm_*,gfx*")),
    ask("slim lib.so", lambda to: library.slim("lib.so", to)),
    ask("slim lib.so --config slim.toml", lambda to: library.slim("lib.so", to, config="slim.toml")),
    ask(
        "slim lib.so --config slim.toml --drop sm_80",
        lambda to: library.slim("lib.so", to, config="slim.toml", drop="sm_80"),
    ),
    ask("slim lib.so --config wrong.toml", lambda to: library.slim("lib.so", to, config="wrong.toml")),
    ask("slim lib.so --config uniform.toml", lambda to: library.slim("lib.so", to, config="uniform.toml")),
    ask("slim lib.so --plan slim.toml", lambda to: library.slim("lib.so", to, plan="slim.toml")),
    ask("slim lib.so --used used.txt", lambda to: library.slim("lib.so", to, used="used.txt")),
    ask(
        "slim lib.so --used used.txt --drop-unused",
        lambda to: library.slim("lib.so", to, used="used.txt", drop_unused=True),
    ),
    ask("slim lib.so --used other.txt", lambda to: library.slim("lib.so", to, used="other.txt")),
    ask("slim lib.so --max-size 40kB", lambda to: library.slim("lib.so", to, max_size="40kB")),
    ask("slim lib.so --max-size 20kB", lambda to: library.slim("lib.so", to, max_size="20kB")),
    ask("slim lib.so --max-size much", lambda to: library.slim("lib.so", to, max_size="much")),
    ask(
        "slim lib.so --for sm_80 --priority sm_90",
        lambda to: library.slim("lib.so", to, devices="sm_80", priority="sm_90"),
    ),
    ask("slim lib.so --used missing.txt", lambda to: library.slim("lib.so", to, used="missing.txt")),
    ask(
        "slim lib.so --for sm_80 --drop-unused",
        lambda to: library.slim("lib.so", to, devices="sm_80", drop_unused=True),
    ),
    ask("slim lib.so --for sm_80 --level 3", lambda to: library.slim("lib.so", to, devices="sm_80", level=3)),
    ask("slim lib.so --recompress zstd --level 3", lambda to: library.slim("lib.so", to, recompress="zstd", level=3)),
    ask("slim lib.so --drop sm_80,", lambda to: library.slim("lib.so", to, drop="sm_80,")),
    ask("slim lib.so --for nothing_1", lambda to: library.slim("lib.so", to, devices="nothing_1")),
    ask(
        "slim lib.so --for sm_80 --build-tag 1x", lambda to: library.slim("lib.so", to, devices="sm_80", build_tag="1x")
    ),
    ask("slim lib.so --for gfx90a", lambda to: library.slim("lib.so", to, devices="gfx90a")),
    # split
    ask(f"split {FAT_WHEEL}", lambda to: library.split(FAT_WHEEL, to), to="-d"),
    ask(
        f"split {FAT_WHEEL} --by sm_80,hopper=sm_90 --null rest",
        lambda to: library.split(FAT_WHEEL, to, by=["sm_80", "hopper=sm_90"], null="rest"),
        to="-d",
    ),
    ask(f"split {FAT_WHEEL} --by sm_99", lambda to: library.split(FAT_WHEEL, to, by="sm_99"), to="-d"),
    ask(f"split {FAT_WHEEL} --by sm_120", lambda to: library.split(FAT_WHEEL, to, by="sm_120"), to="-d"),
    ask(f"split {FAT_WHEEL} --insist sm70", lambda to: library.split(FAT_WHEEL, to, insist="sm70"), to="-d"),
    ask("split lib.so", lambda to: library.split("lib.so", to), to="-d"),
    ask("split x.whl", lambda to: library.split("x.whl", to), to="-d"),
    ask(f"split {FAT_WHEEL} --dry-run", lambda to: library.split(FAT_WHEEL, dry_run=True), to=""),
    ask(
        f"split {FAT_WHEEL} --config wrong.toml", lambda to: library.split(FAT_WHEEL, to, config="wrong.toml"), to="-d"
    ),
    # slim of what is not there
    ask("slim missing.so --for sm_80", lambda to: library.slim("missing.so", to, devices="sm_80")),
    ask("slim a.cubin --for sm_80", lambda to: library.slim("a.cubin", to, devices="sm_80")),
    ask("slim empty --for sm_80", lambda to: library.slim("empty", to, devices="sm_80")),
    ask("slim cut.bin --for sm_80", lambda to: library.slim("cut.bin", to, devices="sm_80")),
    # check
    ask("check --no-config lib.so --require sm_80", lambda _: library.check("lib.so", require="sm_80"), to=""),
    ask("check --no-config lib.so --require gfx90a", lambda _: library.check("lib.so", require="gfx90a"), to=""),
    ask("check --no-config lib.so", lambda _: library.check("lib.so"), to=""),
    ask(
        "check --no-config lib.so --forbid sm_80 --per library",
        lambda _: library.check("lib.so", forbid="sm_80", per="library"),
        to="",
    ),
    ask(
        "check --no-config lib.so --uniform --per unit",
        lambda _: library.check("lib.so", uniform=True, per="unit"),
        to="",
    ),
    ask("check --no-config lib.so --strict", lambda _: library.check("lib.so", strict=True), to=""),
    ask(
        "check --no-config lib.so --uniform --strict",
        lambda _: library.check("lib.so", uniform=True, strict=True),
        to="",
    ),
    ask("check --no-config lib.so --max-growth 5%", lambda _: library.check("lib.so", max_growth="5%"), to=""),
    ask("check --no-config lib.so --against lib.so", lambda _: library.check("lib.so", against="lib.so"), to=""),
    ask(
        "check --no-config lib.so --against lib.so --max-growth much",
        lambda _: library.check("lib.so", against="lib.so", max_growth="much"),
        to="",
    ),
    ask("check --no-config lib.so --max-size big", lambda _: library.check("lib.so", max_size="big"), to=""),
    ask("check --no-config lib.so --max-size 1kB", lambda _: library.check("lib.so", max_size="1kB"), to=""),
    ask("check --no-config lib.so --forbid sm_5O", lambda _: library.check("lib.so", forbid="sm_5O"), to=""),
    ask("check --no-config lib.so --require @none", lambda _: library.check("lib.so", require="@none"), to=""),
    ask("check --config wrong.toml lib.so", lambda _: library.check("lib.so", config="wrong.toml"), to=""),
    ask(
        "check --config uniform.toml lib.so --per library",
        lambda _: library.check("lib.so", config="uniform.toml", per="library"),
        to="",
    ),
    # pack
    ask("pack", lambda to: library.pack([IMAGE], to), STATED),
    ask("pack --format bundle", lambda to: library.pack([IMAGE], to, format="bundle"), STATED),
    ask("pack --format fatbin", lambda to: library.pack([IMAGE], to, format="fatbin"), "--image=file=a.cubin"),
    ask("pack", lambda to: library.pack([], to)),
    ask("pack --host host.o", lambda to: library.pack([IMAGE], to, host="host.o"), STATED),
    ask(
        "pack --host host.o --format bundle",
        lambda to: library.pack([IMAGE], to, host="host.o", format="bundle"),
        STATED,
    ),
    ask("pack --host a.cubin", lambda to: library.pack([IMAGE], to, host="a.cubin"), STATED),
    ask("pack --host missing.o", lambda to: library.pack([IMAGE], to, host="missing.o"), STATED),
    ask("pack --host empty", lambda to: library.pack([IMAGE], to, host="empty"), STATED),
    ask(
        "pack --compress --container-version 1",
        lambda to: library.pack([IMAGE], to, options=library.OffloadBinaryOptions(version=1, compression="zstd")),
        STATED,
    ),
    ask(
        "pack --format fatbin --concat --image=file=a.cubin",
        lambda to: library.pack([IMAGE], to, options=library.FatbinOptions(concat=True)),
    ),
    ask(
        "pack --format fatbin --include-ptx some --image=file=a.cubin",
        lambda to: library.pack([IMAGE], to, options=library.FatbinOptions(include_ptx="some")),
    ),
    ask(
        "pack --image=file=missing.cubin,triple=nvptx64-nvidia-cuda",
        lambda to: library.pack([library.ImageFile("missing.cubin", "nvptx64-nvidia-cuda")], to),
    ),
    ask("pack --image=file=a.cubin", lambda to: library.pack([library.ImageFile("a.cubin")], to)),
    ask(
        "pack --format kpack --image=file=a.cubin",
        lambda to: library.pack([library.ImageFile("a.cubin")], to, format="kpack"),
    ),
    ask("pack --format syclbin", lambda to: library.pack([IMAGE], to, format="syclbin"), STATED),
    ask("pack --format cir", lambda to: library.pack([IMAGE], to, format="cir"), STATED),
    ask(
        "pack --format bundle --type o --host host.o --image=file=a.cubin,id=openmp-nvptx64-nvidia-cuda--sm_80",
        lambda to: library.pack(
            [library.ImageFile("a.cubin", id="openmp-nvptx64-nvidia-cuda--sm_80")],
            to,
            options=library.BundleOptions(type="o"),
            host="host.o",
        ),
    ),
    ask("pack --format fatbin --image=file=empty", lambda to: library.pack([EMPTY], to, format="fatbin")),
    ask("pack --image=file=empty", lambda to: library.pack([EMPTY], to)),
    # convert
    ask("convert pkg.bin --format bundle", lambda to: library.convert("pkg.bin", to, format="bundle")),
    ask("convert pkg.bin --format fatbin", lambda to: library.convert("pkg.bin", to, format="fatbin")),
    ask("convert pkg.bin --format kpack", lambda to: library.convert("pkg.bin", to, format="kpack")),
    ask("convert pkg.bin --format syclbin", lambda to: library.convert("pkg.bin", to, format="syclbin")),
    ask("convert lib.so --format offload-binary", lambda to: library.convert("lib.so", to, format="offload-binary")),
    ask(
        "convert lib.so --format offload-binary --lossy",
        lambda to: library.convert("lib.so", to, format="offload-binary", lossy=True),
    ),
    ask(
        "convert pkg.bin --format bundle --lossy",
        lambda to: library.convert("pkg.bin", to, format="bundle", lossy=True),
    ),
    ask("convert host.o --format bundle", lambda to: library.convert("host.o", to, format="bundle")),
    ask("convert missing --format bundle", lambda to: library.convert("missing", to, format="bundle")),
    ask(
        "convert cut.bin --format bundle --lossy",
        lambda to: library.convert("cut.bin", to, format="bundle", lossy=True),
    ),
    ask("convert empty --format bundle", lambda to: library.convert("empty", to, format="bundle")),
    ask(
        "convert bad.bundle --format offload-binary",
        lambda to: library.convert("bad.bundle", to, format="offload-binary"),
    ),
    ask(
        "convert bad.bundle --format offload-binary --lossy",
        lambda to: library.convert("bad.bundle", to, format="offload-binary", lossy=True),
    ),
    ask("convert x.whl --format bundle", lambda to: library.convert("x.whl", to, format="bundle")),
    # wrap
    ask("wrap --kind cuda fat.fatbin", lambda to: library.wrap(["fat.fatbin"], to, kind="cuda")),
    ask("wrap --kind cuda", lambda to: library.wrap([], to, kind="cuda")),
    ask("wrap --kind hip fat.fatbin", lambda to: library.wrap(["fat.fatbin"], to, kind="hip")),
    ask(
        "wrap --kind cuda --relocatable fat.fatbin",
        lambda to: library.wrap(["fat.fatbin"], to, kind="cuda", relocatable=True),
    ),
    ask(
        "wrap --kind cuda --host-triple nonsense fat.fatbin",
        lambda to: library.wrap(["fat.fatbin"], to, kind="cuda", host_triple="nonsense"),
    ),
    ask("wrap --kind cuda missing", lambda to: library.wrap(["missing"], to, kind="cuda")),
    ask("wrap --kind cuda empty", lambda to: library.wrap(["empty"], to, kind="cuda")),
    ask("wrap --kind cuda host.o", lambda to: library.wrap(["host.o"], to, kind="cuda")),
    ask("wrap --kind hip", lambda to: library.wrap([IMAGE], to, kind="hip"), STATED),
    ask("wrap --kind openmp", lambda to: library.wrap([IMAGE], to, kind="openmp"), STATED),
    ask("wrap --kind sycl", lambda to: library.wrap([IMAGE], to, kind="sycl"), STATED),
    ask("wrap --kind cuda a.cubin k.ptx", lambda to: library.wrap(["a.cubin", "k.ptx"], to, kind="cuda")),
    ask("wrap --kind openmp --as 19 pkg.bin", lambda to: library.wrap(["pkg.bin"], to, kind="openmp", llvm=19)),
    ask("wrap --kind sycl --as 19 pkg.bin", lambda to: library.wrap(["pkg.bin"], to, kind="sycl", llvm=19)),
    ask(
        "wrap --kind openmp --relocatable pkg.bin",
        lambda to: library.wrap(["pkg.bin"], to, kind="openmp", relocatable=True),
    ),
    ask(
        "wrap --kind cuda --emit llvm-ir --host-triple wasm32-unknown-wasi fat.fatbin",
        lambda to: library.wrap(["fat.fatbin"], to, kind="cuda", emit="llvm-ir", host_triple="wasm32-unknown-wasi"),
    ),
    ask(
        "wrap --kind cuda --emit llvm-ir fat.fatbin",
        lambda to: library.wrap(["fat.fatbin"], to, kind="cuda", emit="llvm-ir"),
    ),
    ask("wrap --kind cuda cut.bin", lambda to: library.wrap(["cut.bin"], to, kind="cuda")),
    # map
    ask("map pkg.bin --replace", lambda to: library.map_images("pkg.bin", COPY, to), "--", *COPY),
    ask("map pkg.bin --add", lambda to: library.map_images("pkg.bin", COPY, to, put="add"), "--", *COPY),
    ask(
        "map pkg.bin --replace --arch sm_1",
        lambda to: library.map_images("pkg.bin", COPY, to, library.Selector(arch="sm_1")),
        "--",
        *COPY,
    ),
    ask(
        "map pkg.bin --replace --arch sm_80,gfx90a",
        lambda to: library.map_images("pkg.bin", COPY, to, library.Selector(arch="sm_80,gfx90a")),
        "--",
        *COPY,
    ),
    ask(
        "map pkg.bin --replace --arch gfx90a",
        lambda to: library.map_images("pkg.bin", LONGER, to, library.Selector(arch="gfx90a")),
        "--",
        *LONGER,
    ),
    ask("map pkg.bin --replace", lambda to: library.map_images("pkg.bin", [], to)),
    ask(
        "map pkg.bin --replace -- no-such-command {in} {out}",
        lambda to: library.map_images("pkg.bin", ["no-such-command", "{in}", "{out}"], to),
    ),
    ask("map pkg.bin --replace -- cp {in}", lambda to: library.map_images("pkg.bin", ["cp", "{in}"], to)),
    ask(
        "map pkg.bin --replace -- cp {inn} {out}",
        lambda to: library.map_images("pkg.bin", ["cp", "{inn}", "{out}"], to),
    ),
    ask(
        "map pkg.bin --replace -- false {in} {out}",
        lambda to: library.map_images("pkg.bin", ["false", "{in}", "{out}"], to),
    ),
    ask("map empty --replace", lambda to: library.map_images("empty", COPY, to), "--", *COPY),
    ask("map host.o --replace", lambda to: library.map_images("host.o", COPY, to), "--", *COPY),
    # extract
    ask("extract pkg.bin", lambda to: library.extract("pkg.bin", to), to="-d"),
    ask("extract lib.so", lambda to: library.extract("lib.so", to), to="-d"),
    ask(
        "extract lib.so --arch sm_80", lambda to: library.extract("lib.so", to, library.Selector(arch="sm_80")), to="-d"
    ),
    ask("extract pkg.bin --id none", lambda to: library.extract("pkg.bin", to, library.Selector(id="none")), to="-d"),
    ask("extract missing", lambda to: library.extract("missing", to), to="-d"),
    ask("extract lib.so --arch sm_1", lambda to: library.extract("lib.so", to, library.Selector(arch="sm_1")), to="-d"),
    ask("extract empty", lambda to: library.extract("empty", to), to="-d"),
    # embed
    ask("embed host.o pkg.bin", lambda to: library.embed("host.o", "pkg.bin", to)),
    ask("embed lib.a(host.o) pkg.bin", lambda to: library.embed("lib.a", "pkg.bin", to, member="host.o")),
    ask("embed lib.a(none.o) pkg.bin", lambda to: library.embed("lib.a", "pkg.bin", to, member="none.o")),
    ask("embed host.o a.cubin", lambda to: library.embed("host.o", "a.cubin", to)),
    ask("embed host.o a.cubin --force", lambda to: library.embed("host.o", "a.cubin", to, accept_damage=True)),
    ask("embed pkg.bin host.o", lambda to: library.embed("pkg.bin", "host.o", to)),
    ask("embed host.o cut.bin", lambda to: library.embed("host.o", "cut.bin", to)),
    ask("embed host.o cut.bin --force", lambda to: library.embed("host.o", "cut.bin", to, accept_damage=True)),
    ask("embed empty pkg.bin", lambda to: library.embed("empty", "pkg.bin", to)),
    ask("embed host.o empty", lambda to: library.embed("host.o", "empty", to)),
    ask("embed lib.so pkg.bin", lambda to: library.embed("lib.so", "pkg.bin", to)),
    # remove
    ask("remove fat.o", lambda to: library.remove("fat.o", to)),
    ask("remove fat.o --arch sm_80", lambda to: library.remove("fat.o", to, library.Selector(arch="sm_80"))),
    ask("remove fat.o --arch sm_1", lambda to: library.remove("fat.o", to, library.Selector(arch="sm_1"))),
    ask("remove lib.so --arch sm_80", lambda to: library.remove("lib.so", to, library.Selector(arch="sm_80"))),
    ask("remove lib.so", lambda to: library.remove("lib.so", to)),
    ask("remove lib.so --allow-empty", lambda to: library.remove("lib.so", to, allow_empty=True)),
    ask("remove host.o", lambda to: library.remove("host.o", to)),
    ask("remove empty", lambda to: library.remove("empty", to)),
    ask("remove missing", lambda to: library.remove("missing", to)),
    ask("remove pkg.bin", lambda to: library.remove("pkg.bin", to)),
    ask("remove cut.bin", lambda to: library.remove("cut.bin", to)),
    # replace
    ask("replace fat.o pkg.bin", lambda to: library.replace("fat.o", "pkg.bin", to)),
    ask("replace fat.o empty", lambda to: library.replace("fat.o", "empty", to)),
    ask("replace empty pkg.bin", lambda to: library.replace("empty", "pkg.bin", to)),
    ask("replace fat.o cut.bin", lambda to: library.replace("fat.o", "cut.bin", to)),
    ask("replace fat.o cut.bin --force", lambda to: library.replace("fat.o", "cut.bin", to, accept_damage=True)),
    ask("replace fat.o fat.fatbin", lambda to: library.replace("fat.o", "fat.fatbin", to)),
    ask(
        "replace fat.o fat.fatbin --force", lambda to: library.replace("fat.o", "fat.fatbin", to, accept_mismatch=True)
    ),
    ask("replace fat.o pkg.bin --section .none", lambda to: library.replace("fat.o", "pkg.bin", to, section=".none")),
    ask(
        "replace fat.o a.cubin --section .llvm.offloading --arch sm_80",
        lambda to: library.replace(
            "fat.o", "a.cubin", to, section=".llvm.offloading", selector=library.Selector(arch="sm_80")
        ),
    ),
    ask(
        "replace fat.o a.cubin --arch sm_80",
        lambda to: library.replace("fat.o", "a.cubin", to, selector=library.Selector(arch="sm_80")),
    ),
    ask(
        "replace fat.o b.cubin --arch sm_80",
        lambda to: library.replace("fat.o", "b.cubin", to, selector=library.Selector(arch="sm_80")),
    ),
    ask(
        "replace fat.o a.cubin --arch sm_1",
        lambda to: library.replace("fat.o", "a.cubin", to, selector=library.Selector(arch="sm_1")),
    ),
    ask(
        "replace pkg.bin a.cubin --all",
        lambda to: library.replace("pkg.bin", "a.cubin", to, selector=library.Selector(), every=True),
    ),
    ask(
        "replace pkg.bin a.cubin --all --force",
        lambda to: library.replace(
            "pkg.bin", "a.cubin", to, selector=library.Selector(), every=True, accept_mismatch=True
        ),
    ),
]


def in_one_spelling(message: str) -> str:
    """Return a message with options of the command line spelled as arguments of the library."""
    message = re.sub(r"Selector\((\w+)=…\)", r"\1", message)
    return re.sub(r"--([a-z][a-z-]*)", lambda found: found[1].replace("-", "_"), message)


def sentences(error: FatpackError | OSError) -> list[str]:
    """Return what is wrong, each loss of a conversion alone; an image of ``ImageFile`` has no option to be named by."""
    if isinstance(error, OSError):
        return [error_message(error)]
    if isinstance(error, LossyConversion):
        return error.problem.partition("would be lost: ")[2].split("; ")
    return [without_image(in_one_spelling(error.problem))]


def without_image(message: str) -> str:
    """Return a message without the image that it begins with, which the command line names by its option."""
    return re.sub(r"^image [^\s:]+:? ", "", message)


def damaged_bundle() -> bytes:
    """Return a compressed bundle with the hash of other bytes."""
    image = library.ImageFile(b"code", id="hip-amdgcn-amd-amdhsa--gfx90a")
    library.pack([image], "good.bundle", options=library.BundleOptions(compression="zlib"))
    data = bytearray(Path("good.bundle").read_bytes())
    data[24] ^= 1
    return bytes(data)


@pytest.fixture
def files(folder: Path) -> Path:
    """Return a folder with a linked library, an object, an archive, containers, and files that are cut or empty."""
    shutil.copy(FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so", "lib.so")
    library.pack([library.ImageFile("a.cubin"), library.ImageFile("k.ptx")], "fat.fatbin", format="fatbin")
    library.embed("host.o", "pkg.bin", "fat.o")
    Path("lib.a").write_bytes(b"!<arch>\n" + member(b"host.o/", Path("host.o").read_bytes()))
    Path("cut.bin").write_bytes(Path("pkg.bin").read_bytes()[:-100])
    Path("empty").write_bytes(b"")
    Path("bad.bundle").write_bytes(damaged_bundle())
    with zipfile.ZipFile("x.whl", "w") as wheel:
        wheel.write("lib.so")
    Path(FAT_WHEEL).write_bytes(releases.wheel("80 90 p90"))
    Path("wrong.toml").write_text("[tool.fatpack.check]\nrequired = 'sm_80'\n")
    Path("uniform.toml").write_text("uniform = true\n")
    Path("slim.toml").write_text("devices = 'sm_80'\n[libraries.'other*']\nstays = true\n")
    Path("used.txt").write_text("add_one\n")
    Path("other.txt").write_text("of_another_program\n")
    return folder


def written(path: Path) -> dict[str, bytes]:
    """Return the files that are at a path: itself, or those in a folder, by their names."""
    return {file.name.replace(path.name, ""): file.read_bytes() for file in (path, *path.glob("*")) if file.is_file()}


@pytest.mark.parametrize("question", QUESTIONS, ids=repr)
def test_the_answers_are_the_same(question: Question, files: Path, fatpack: Callable[..., Any]) -> None:
    verb, *words = question.arguments
    ran = fatpack(verb, *([question.to, "by-command"] if question.to else []), *words)
    said: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            answer = question.call("by-library")
            # ``extract`` returns the paths; none is a finding of the command.
            code = FINDINGS if verb == "extract" and not list(answer) else getattr(answer, "exit_code", 0)
        except (FatpackError, OSError) as error:
            code, said = exit_code(error), sentences(error)
    said += [without_image(str(warning.message)) for warning in warned]
    assert written(files / "by-command") == written(files / "by-library"), f"{ran.err}\nlibrary: {said}"
    # A call that returns a size reports damage in its output by warnings alone.
    assert ran.code == code or (warned and code == 0 and ran.code in (FINDINGS, MALFORMED)), (
        f"{ran.err}\nlibrary: {said}"
    )
    for sentence in said:
        assert sentence in in_one_spelling(ran.err)


@pytest.mark.parametrize("verb", sorted({question.arguments[0] for question in QUESTIONS}))
def test_some_questions_about_each_command_have_a_good_answer(
    verb: str, files: Path, fatpack: Callable[..., Any]
) -> None:
    """Refusals alone would not show that both write the same."""
    good = 0
    for number, question in enumerate(each for each in QUESTIONS if each.arguments[0] == verb):
        out = [question.to, f"out-{number}"] if question.to else []
        good += fatpack(verb, *out, *question.arguments[1:]).code == FINE
        if good == (1 if verb == "check" else 2):
            return
    raise AssertionError(f"{verb}: {good}")
