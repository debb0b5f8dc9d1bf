"""The stand-in for fatbinary: what it writes, says and returns, on its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack import __version__
from fatpack.library import file as library_file
from fatpack.tools.nvidia.command_line import NvidiaCommandLineError, split_list, split_options_file

Fatpack = Callable[..., Ran]
CUBIN = "--image3=kind=elf,sm=90,file=k1.cuda13.0.sm_90.cubin"
PTX = "--image3=kind=ptx,sm=80,file=k1.compute_80.ptx"
FILES = ("fatbinary.out", "fatbinary.c")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for path in (*(FIXTURES / "cuda" / "cubin").iterdir(), *(FIXTURES / "cuda" / "ptx").iterdir()):
        shutil.copy(path, tmp_path)
    Path("empty").write_bytes(b"")
    Path("more").write_text('-g "--ident=a b"')
    return tmp_path


def refused(ran: Ran, message: str) -> None:
    assert (ran.code, ran.out, ran.err) == (1, "", message)
    assert not [name for name in FILES if Path(name).exists()]


def test_a_container_holds_the_images_in_their_order(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("tool", "fatbinary", "--create=x", "-64", PTX, CUBIN) == (0, "", "")
    with library_file.open("x") as file:
        found = [(image.target.arch, image.form, image.compression) for image in file.images()]
    assert found == [("sm_80", "ptx", "zstd"), ("sm_90", "cubin", None)]


def test_without_images_there_is_an_empty_container(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("tool", "fatbinary", "--create=x") == (0, "", "")
    assert Path("x").read_bytes() == bytes.fromhex("50ed55ba010010000000000000000000")


def test_without_an_output_images_are_checked_all_the_same(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("tool", "fatbinary", CUBIN) == (0, "", "")
    wrong = CUBIN.replace("sm=90", "sm=80")
    mismatch = "\nnvFatbin error: fatbinary elf mismatch: elf arch does not match user-specified arch\n"
    refused(fatpack("tool", "fatbinary", wrong), mismatch)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("kind=elf,file=F", "fatbinary fatal   : Missing sm in image3"),
        ("sm=90,file=F", "fatbinary fatal   : Missing or unknown kind in image3"),
        ("kind=cubin,sm=90,file=F", "fatbinary fatal   : Missing or unknown kind in image3"),
        ("kind=elf,sm=90", "fatbinary fatal   : Missing file in image"),
        ("kind=elf,sm=90,file=none", "fatbinary fatal   : Could not open input file 'none'"),
        ("kind=elf,sm=90,x=1", "fatbinary fatal   : Keyword 'x' is not defined for option 'image3'"),
        ("kind=elf,sm=90,sm=90", "fatbinary fatal   : redefinition of keyword 'sm' "),
        ("kind,sm=90", "fatbinary fatal   : 'kind' is not in 'keyword=value' format"),
        ('kind="elf', "fatbinary fatal   : Stray '\"' character"),
        ("kind=elf,sm=sm_90,file=F", "\nnvFatbin error: invalid architecture"),
        ("kind=ptx,sm=90,file=F", "\nnvFatbin error: could not find ptx version"),
        ("kind=ptx,sm=90,file=empty", "\nnvFatbin error: empty input"),
    ],
)
def test_wrong_images_are_refused_in_the_words_of_the_original(
    folder: Path, fatpack: Fatpack, image: str, message: str
) -> None:
    option = "--image3=" + image.replace("F", "k1.cuda13.0.sm_90.cubin")
    refused(fatpack("tool", "fatbinary", "--create=fatbinary.out", option), message + "\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--create"], "fatbinary fatal   : argument expected after '--create'"),
        (["--bogus"], "fatbinary fatal   : Unknown option '-bogus'"),
        (["-64=1"], "fatbinary fatal   : no argument expected after '-64'"),
        (["--compress=1"], "fatbinary fatal   : '1': expected true or false"),
        (["-optf", "none"], "fatbinary fatal   : Could not open options file 'none'"),
        (["-32", "-64"], "\nnvFatbin error: unknown option"),
        (["--compress-mode=fast"], "\nnvFatbin error: unknown option"),
        (["--image2=kind=index,file=more"], "\nnvFatbin error: invalid index input"),
        (["--create=none/x"], "fatbinary fatal   : Could not open output file 'none/x'"),
        (["--embedded-fatbin=none/x"], "fatbinary fatal   : Could not open output file 'none/x'"),
    ],
)
def test_wrong_options_are_refused_in_the_words_of_the_original(
    folder: Path, fatpack: Fatpack, options: list[str], message: str
) -> None:
    refused(fatpack("tool", "fatbinary", *options), message + "\n")


def test_an_output_that_cannot_be_written_takes_the_other_with_it(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("tool", "fatbinary", "--create=fatbinary.out", "--embedded-fatbin=none/x", CUBIN)
    refused(ran, "fatbinary fatal   : Could not open output file 'none/x'\n")


def test_options_that_are_given_twice_warn(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("tool", "fatbinary", "--create=x", "--create=y")
    assert ran.err == (
        "fatbinary warning : incompatible redefinition for option 'create', the last value of this option was used\n"
    )
    assert not Path("x").exists()
    assert Path("y").exists()


def test_options_that_only_the_original_knows_are_refused(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("tool", "fatbinary", "--create=fatbinary.out", "--compress-level=3")
    refused(ran, "fatbinary fatal   : the option 'compress-level' is not among those that fatpack knows\n")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["a-file"], ["-h", "-V"], ["a-file", CUBIN]])
def test_the_help_is_printed(folder: Path, fatpack: Fatpack, arguments: list[str]) -> None:
    ran = fatpack("tool", "fatbinary", *arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("\nUsage  : fatbinary [options]\n")
    assert "--embedded-fatbin <file name>                      (-fatbin)\n" in ran.out


def test_a_deprecated_option_asks_for_the_help(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("tool", "fatbinary", "-dir", "x", "--create=fatbinary.out", CUBIN)
    assert (ran.code, ran.err) == (0, "fatbinary warning : option 'export-dir' has been deprecated\n")
    assert ran.out.startswith("\nUsage  : fatbinary [options]\n")
    assert not Path("fatbinary.out").exists()


def test_objects_with_relocatable_ptx_are_refused(folder: Path, fatpack: Fatpack) -> None:
    image = "--image2=kind=reloc,file=k1.cuda13.0.sm_90.cubin"
    message = "fatbinary fatal   : taking relocatable PTX out of objects is not offered by fatpack\n"
    refused(fatpack("tool", "fatbinary", "--create=fatbinary.out", image), message)
    refused(fatpack("tool", "fatbinary", image.replace("k1.cuda13.0.sm_90.cubin", "more")), _INTERNAL)


_INTERNAL = "\nnvFatbin error: internal error\n"


def test_the_version_says_what_this_is(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("tool", "/x/fatbinary", "-V")
    assert ran == (0, f"fatbinary: fatpack {__version__}, standing in for fatbinary of CUDA 13.0\n", "")


def test_an_options_file_is_read_in_its_place(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("tool", "fatbinary", "-optf", "more", "--create=x", CUBIN) == (0, "", "")
    with library_file.open("x") as file:
        (image,) = file.images()
    assert image.attrs == {"identifier": "a b", "debug": "yes"}
    assert image.compression == "zstd"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-a  b\n\tc", ["-a", "b", "c"]),
        ('x"a b"y', ["xa by"]),
        ("a\\ b", ["a b"]),
        ('"a\\"b"', ["ab"]),
        ("'a b'", ["'a", "b'"]),
        ('""', [""]),
        ("a\0b", ["a"]),
    ],
)
def test_words_of_options_files(text: str, words: list[str]) -> None:
    assert split_options_file(text) == words


def test_lists_are_split_outside_of_quotes() -> None:
    assert split_list('a,"b,c" , d,,') == ["a", "b,c", "d"]
    with pytest.raises(NvidiaCommandLineError, match="Stray"):
        split_list('a"')


def test_options_of_later_versions_are_known(folder: Path, fatpack: Fatpack) -> None:
    Path("tile").write_bytes(b"\x7fTileIR\0" + bytes(8))
    images = [PTX, PTX.replace("sm=80", "sm=90"), CUBIN, "--image2=kind=tileir,file=tile"]
    options = ["--concat", "--tileir-cmdline=-O3", "--id-suffix=_x", "--embedded-fatbin=fatbinary.c"]
    assert fatpack("tool", "fatbinary", "--create=x", *images, *options) == (0, "", "")
    with library_file.open("x") as file:
        found = [(item.target.arch, item.form, item.attrs.get("options")) for item in file.images()]
    # Single images come before the group.
    assert found == [
        ("sm_90", "cubin", None),
        ("sm_80", "tileir", "-O3"),
        ("sm_80", "ptx", None),
        ("sm_90", "ptx", None),
    ]
    text = Path("fatbinary.c").read_text()
    assert '.nvFatBinSegment_x"' in text
    assert text.count("fatbinData_x") == 3
    assert "__fatDeviceText_x " in text


def test_a_group_that_shall_not_be_compressed_is_refused(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("tool", "fatbinary", "--create=fatbinary.out", "--concat", "--compress=false", PTX)
    refused(
        ran,
        "fatbinary fatal   : Option '--concat' requires compression to be enabled; it is incompatible with "
        "'--compress=false' and '--compress-mode=none'\n",
    )


def test_no_image_is_left_out_of_a_group_for_its_architecture(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("tool", "fatbinary", "--create=fatbinary.out", "--concat", PTX, PTX.replace("sm=80", "sm=x"))
    refused(ran, "\nnvFatbin error: invalid architecture\n")


def test_ltoir_is_stored_without_obfuscation(folder: Path, fatpack: Fatpack) -> None:
    Path("x.ltoir").write_bytes(b"\xed\x43\x4e\x7f\x01\x41" + bytes(range(200)))
    assert fatpack("tool", "fatbinary", "--create=x", "--image3=kind=nvvm,sm=90,file=x.ltoir").code == 0
    with library_file.open("x") as file:
        (image,) = file.images()
        assert image.data.tobytes() == Path("x.ltoir").read_bytes()
    assert image.compression == "zstd"
    assert "obfuscated" not in image.attrs


UNDEFINES = "#undef __CUDAFATBINDATASECTION\n#undef __CUDAFATBINSECTION\n"


@pytest.mark.parametrize(
    ("given", "variable", "is_later"),
    [([], "", False), (["--as=13.0"], "13.5", False), (["--as=13.5"], "", True), ([], "13.5", True)],
)
def test_the_version_decides_what_is_undefined(
    folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch, given: list[str], variable: str, is_later: bool
) -> None:
    monkeypatch.setenv("FATPACK_CUDA", variable)
    assert fatpack("tool", *given, "fatbinary", "--embedded-fatbin=fatbinary.c", PTX).code == 0
    assert (UNDEFINES in Path("fatbinary.c").read_text()) == is_later


def test_the_version_decides_how_fast_code_is_compressed(folder: Path, fatpack: Fatpack) -> None:
    fast = []
    for version in ("13.0", "13.5"):
        assert fatpack("tool", f"--as={version}", "fatbinary", "--create=x", "--compress-mode=speed", PTX).code == 0
        fast.append(Path("x").read_bytes())
    assert fast[0] != fast[1]


@pytest.mark.parametrize("option", ["--concat", "--id-suffix=x", "--tileir-cmdline=x"])
def test_a_version_does_not_know_what_came_later(folder: Path, fatpack: Fatpack, option: str) -> None:
    name = option.lstrip("-").partition("=")[0]
    ran = fatpack("tool", "--as=13.0", "fatbinary", "--create=fatbinary.out", option, PTX)
    refused(ran, f"fatbinary fatal   : Unknown option '-{name}'\n")
    assert fatpack("tool", "fatbinary", "--create=fatbinary.out", option, PTX).code == 0


def test_tile_ir_is_unknown_to_the_older_version(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("tool", "--as=13.0", "fatbinary", "--create=fatbinary.out", "--image2=kind=tileir,file=more")
    refused(ran, "fatbinary fatal   : Missing or unknown kind in image3\n")


def test_later_versions_open_all_files_before_they_look_into_one(folder: Path, fatpack: Fatpack) -> None:
    images = [PTX.replace("sm=80", "sm=90b"), "--image3=kind=ptx,sm=80,file=none"]
    first = {"13.0": "\nnvFatbin error: invalid architecture\n"}
    first["13.5"] = "fatbinary fatal   : Could not open input file 'none'\n"
    for version, message in first.items():
        refused(fatpack("tool", f"--as={version}", "fatbinary", "--create=fatbinary.out", *images), message)


def test_what_is_given_the_old_way_is_left_out_beside_an_image_of_its_own_architectures(
    folder: Path, fatpack: Fatpack
) -> None:
    Path("tile").write_bytes(b"\x7fTileIR\0\x0d\x02\x01\x00\x05\x06" + bytes(50))
    ran = fatpack("tool", "fatbinary", "--create=x", "--image2=kind=tileir,file=tile", "-ptx=k1.compute_80.ptx")
    assert ran.code == 0
    with library_file.open("x") as file:
        assert [image.form for image in file.images()] == ["tileir"]
