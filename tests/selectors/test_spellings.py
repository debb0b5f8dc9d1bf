"""Every selector takes a target in all spellings that compilers write and containers store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.cir import HOST, combined
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main
from fatpack.selectors.select import Selector, ids_in_file, select_images

Run = Callable[..., tuple[int, str]]

CUDA = "cuda-nvptx64-nvidia-cuda"
#: clang's driver, a person or clang-offload-bundler, and early examples of ClangIR
ENDS = ("-unknown-sm_80", "--sm_80", "-sm_80")
MODULE = 'module attributes {cir.triple = "nvptx64-nvidia-cuda"} {\n  cir.func @k() {\n    cir.return\n  }\n}\n'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def fatpack(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        streams = capsys.readouterr()
        return code, streams.out + streams.err

    return fatpack


def chosen(data: bytes, **conditions: str) -> list[str]:
    """Return the positions of the images that conditions mean."""
    return [position for position, _, _ in select_images(fatpack.open(data).items, Selector(**conditions))]


@pytest.mark.parametrize("stored", ENDS)
@pytest.mark.parametrize("asked", ENDS)
def test_every_command_takes_an_id_as_driver_and_container_spell_it(run: Run, stored: str, asked: str) -> None:
    container = combined((MODULE, HOST), (MODULE.replace("@k", "@other"), f"{CUDA}--sm_90"), (MODULE, CUDA + stored))
    Path("k.cir").write_bytes(container)
    Path("new.cir").write_text(MODULE.replace("@k", "@replacement"))
    for command in (
        ("extract", "k.cir", "-o", "extracted"),
        ("convert", "k.cir", "--format=offload-binary", "--lossy", "-o", "converted"),
        ("remove", "k.cir", "-o", "removed"),
        ("replace", "k.cir", "new.cir", "-o", "replaced"),
        ("map", "k.cir", "-d", "mapped", "--id", CUDA + asked, "--", "cp", "{in}", "{out}"),
    ):
        given = () if command[0] == "map" else ("--id", CUDA + asked)
        code, text = run(*command, *given)
        assert code == 0, text
    assert [word in Path("extracted").read_text() for word in ("@k()", "@other")] == [True, False]
    assert [word in Path("removed").read_text() for word in ("@other", CUDA + stored)] == [True, False]
    assert [word in Path("replaced").read_text() for word in ("@other", "@replacement")] == [True, True]
    assert [len(found.images) for found in fatpack.open("converted").containers] == [1]


@pytest.mark.parametrize("stored", ENDS)
def test_a_message_names_the_ids_that_are_stored_and_gives_no_reason_that_is_none(run: Run, stored: str) -> None:
    Path("k.cir").write_bytes(combined((MODULE, HOST), (MODULE, CUDA + stored)))
    code, text = run("extract", "k.cir", "--id", f"{CUDA}-unknown-sm_90", "-o", "x")
    assert code == 1
    assert text.endswith(f"(the processors differ: sm_80 and sm_90); present are {HOST}, {CUDA}{stored}\n")


def test_an_image_without_a_target_has_no_id() -> None:
    four = fatpack.open(FIXTURES / "offload_binary" / "llvm-22-four.bin")
    assert [spelling for spelling in ids_in_file(four.items) if spelling.startswith("sycl")] == []


#: file → conditions that mean one of its images, as the tools around it spell them → the position of that image
_SPELLINGS: tuple[tuple[str, tuple[dict[str, str], ...], list[str]], ...] = (
    (
        "clang_bundle/llvm-22-hip.bundle",
        (
            {"id": "hipv4-amdgcn-amd-amdhsa--gfx90a"},
            {"id": "hip-amdgcn-amd-amdhsa--gfx90a"},
            {"id": "hip-amdgcn-amd-amdhsa-unknown-gfx90a"},
            {"id": "hipv4-amdgcn-amd-amdhsa-unknown-gfx90a"},
            {"id": "hip-amdgcn-amd-amdhsa-gfx90a"},
            {"id": "hip-amdgpu9.0a-amd-amdhsa--"},
            {"offload": "hipv4", "triple": "amdgcn-amd-amdhsa-unknown", "arch": "gfx90a"},
            {"offload": "hip", "triple": "amdgcn-amd-amdhsa-", "arch": "gfx90a"},
            {"triple": "amdgpu-amd-amdhsa", "arch": "gfx90a"},
            {"triple": "amdgpu9.0a-amd-amdhsa"},
        ),
        ["0.2"],
    ),
    (
        "clang_bundle/llvm-22-hip.bundle",
        (
            {"id": "host-x86_64-unknown-linux-gnu"},
            {"id": "host-x86_64-unknown-linux-gnu-"},
            {"offload": "host"},
            {"triple": "x86_64-unknown-linux-gnu"},
            {"triple": "x86_64-unknown-linux-gnu-"},
        ),
        ["0.0"],
    ),
    (
        "offload_binary/llvm-22-four.bin",
        (
            {"id": "openmp-nvptx64-nvidia-cuda--sm_80"},
            {"id": "openmp-nvptx64-nvidia-cuda-unknown-sm_80"},
            {"id": "openmp-nvptx64-nvidia-cuda-sm_80"},
            {"offload": "openmp", "triple": "nvptx64-nvidia-cuda-unknown"},
            {"offload": "openmp", "triple": "nvptx64-nvidia-cuda"},
        ),
        ["0.1"],
    ),
    (
        "offload_binary/llvm-22-four.bin",
        (
            {"id": "hip-amdgcn-amd-amdhsa-unknown-gfx90a:xnack+"},
            {"id": "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"},
            {"id": "hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack+"},
            {"arch": "gfx90a:xnack+"},
            {"arch": "gfx90a"},
        ),
        ["0.2"],
    ),
    (
        "cuda_fatbin/v130_size.fatbin",
        (
            {"id": f"{CUDA}-unknown-sm_80"},
            {"id": f"{CUDA}--sm_80"},
            {"id": f"{CUDA}-sm_80"},
            {"triple": "nvptx64-nvidia-cuda-unknown"},
            {"triple": "nvptx64-nvidia-cuda"},
            {"arch": "sm_80"},
        ),
        ["0.0", "0.1"],
    ),
)


@pytest.mark.parametrize(
    ("path", "conditions", "positions"),
    [(path, condition, positions) for path, all_of, positions in _SPELLINGS for condition in all_of],
)
def test_conditions_take_the_spellings_of_every_tool(
    path: str, conditions: dict[str, str], positions: list[str]
) -> None:
    data = (FIXTURES / path).read_bytes()
    assert chosen(data, **conditions) == [_offset(data, position) for position in positions]


def _offset(data: bytes, position: str) -> str:
    """Return a position as counted over all containers: an offload binary may be stored as one container per image."""
    numbers = [(number, len(found.images)) for number, found in enumerate(fatpack.open(data).containers)]
    index = int(position.partition(".")[2])
    for number, count in numbers:
        if index < count:
            return f"{number}.{index}"
        index -= count
    raise AssertionError(position)


@pytest.mark.parametrize("end", ["-unknown", "-", ""])
def test_the_end_of_a_stored_triple_does_not_matter(end: str) -> None:
    data = combined((MODULE, HOST), (MODULE, f"{CUDA}-unknown-sm_80"), (MODULE, f"{CUDA}--sm_90"))
    assert chosen(data, triple=f"nvptx64-nvidia-cuda{end}") == ["0.1", "0.2"]
    assert chosen(data, triple=f"!nvptx64-nvidia-cuda{end}") == ["0.0"]
    assert chosen(data, triple="nvptx64-*") == ["0.1", "0.2"]


def test_features_may_come_in_any_order() -> None:
    data = combined((MODULE, HOST), (MODULE, "hip-amdgcn-amd-amdhsa-unknown-gfx90a:sramecc+:xnack-"))
    assert chosen(data, arch="gfx90a:xnack-:sramecc+") == ["0.1"]
    assert chosen(data, id="hip-amdgcn-amd-amdhsa--gfx90a:xnack-:sramecc+") == ["0.1"]
    assert chosen(data, arch="gfx90a:xnack+:sramecc+") == []
