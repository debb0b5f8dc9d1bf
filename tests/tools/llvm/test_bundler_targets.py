"""Generated targets through the stand-in and clang-offload-bundler 22: stored as the same IDs, with the same entries.

Processors are those that LLVM 22 knows: with others it loses them, and ``test_clang_offload_bundler.py`` has the cases.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from tests.effort import some
from tests.reference import llvm_tool, tool

from fatpack.formats.clang_bundle.bundle_id import conflict_llvm22, refusal_llvm22, stored_by_llvm22
from fatpack.main import main
from fatpack.targets import llvm_triple

pytestmark = pytest.mark.reference

NAME = "clang-offload-bundler"
COMMON = ["amdgcn-amd-amdhsa-", "amdgcn-amd-amdhsa-unknown", "nvptx64-nvidia-cuda-", "spirv64-amd-amdhsa-"]
COMMON += ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc"]
#: One with a dash in its name splits into other parts; with shadermodel, LLVM gives a dxil without version a version.
ARCHITECTURES = sorted(llvm_triple.ARCHITECTURES - {"armv6-m", "dxil"})
VENDORS = [*sorted(llvm_triple.VENDORS), "unknown", "", "w64", "redhat", "none"]
SYSTEMS = [*llvm_triple.SYSTEMS, "unknown", "", "none", "mingw32", "cygwin", "msys", "linux4.1", "darwin23", "amdhsa1"]
ENVIRONMENTS = [
    *llvm_triple.ENVIRONMENTS,
    "",
    "unknown",
    "android21",
    "androideabi21",
    "elf",
    "macho",
    "windows",
    "linux",
]
PROCESSORS = sorted(llvm_triple.PROCESSORS_LLVM22)


def random_target(rng: random.Random, kind: str) -> str:
    if rng.random() < 0.4:
        triple = rng.choice(COMMON)
    else:
        parts = [rng.choice(VENDORS), rng.choice(SYSTEMS), rng.choice(ENVIRONMENTS)]
        if rng.random() < 0.2:
            rng.shuffle(parts)
        triple = "-".join([rng.choice(ARCHITECTURES), *parts])
    target_id = ""
    if rng.random() < 0.7:
        features = [name + rng.choice("+-") for name in rng.sample(["xnack", "sramecc", "foo"], rng.randrange(3))]
        target_id = ":".join([rng.choice(PROCESSORS), *features]) + rng.choice(["", "", "", "", ":"])
    return f"{kind}-{triple}" + (f"-{target_id}" if target_id or rng.random() < 0.5 else "")


def bundleable(targets: list[str]) -> list[str]:
    """Return those of the targets that can be bundled together, with one host at most."""
    taken: dict[str, str] = {}
    for target in targets:
        has_host = any(spelling.startswith("host-") for spelling in taken)
        if refusal_llvm22(target) or (has_host and target.startswith("host-")):
            continue
        stored = stored_by_llvm22(target)
        if stored not in taken and not conflict_llvm22([*taken.values(), target]):
            taken[stored] = target
    return list(taken.values())


def kinds(rng: random.Random) -> str:
    return rng.choice(["hip", "hipv4", "openmp"])


def both(arguments: list[str], output: list[str]) -> list[tuple[int, list[bytes | None]]]:
    """Run both tools; return the exit code and the outputs of each, None for a missing one."""
    results = []
    for is_ours in (False, True):
        for name in output:
            Path(name).unlink(missing_ok=True)
        if is_ours:
            code = main(["tool", NAME, *arguments])
        else:
            code = subprocess.run([tool(NAME), *arguments], capture_output=True).returncode
        results.append((code, [Path(name).read_bytes() if Path(name).exists() else None for name in output]))
    return results


def compare(seed: int, count: int) -> int:
    """Bundle and unbundle generated targets with both tools; return how many took part."""
    rng = random.Random(seed)
    targets = bundleable([random_target(rng, "host"), *(random_target(rng, kinds(rng)) for _ in range(count))])
    if not targets[0].startswith("host-"):
        targets.insert(0, "host-x86_64-unknown-linux-gnu")
    for number in range(len(targets)):
        Path(f"input{number}").write_text(str(number))
    inputs = [f"-input=input{number}" for number in range(len(targets))]
    type = rng.choice(["bc", "bc", "s"])
    theirs, ours = both([f"-type={type}", f"-targets={','.join(targets)}", *inputs, "-output=made"], ["made"])
    assert theirs[0] == 0
    assert ours == theirs
    wanted = bundleable([rng.choice([rng.choice(targets), random_target(rng, kinds(rng))]) for _ in range(count // 2)])
    outputs = [f"output{number}" for number in range(len(wanted))]
    command = [f"-type={type}", "-unbundle", "-input=made", f"-targets={','.join(wanted)}", "-allow-missing-bundles"]
    for flags in ([], ["-hip-openmp-compatible"]):
        theirs, ours = both([*command, *flags, *(f"-output={name}" for name in outputs)], outputs)
        for target, their, our in zip(wanted, theirs[1], ours[1], strict=True):
            assert our == their, (target, their and targets[int(their)], our and targets[int(our)])
        assert ours[0] == theirs[0]
    return len(targets) + len(wanted)


@pytest.mark.sweep(99)
@pytest.mark.parametrize("seed", range(4))
def test_generated_targets_are_stored_and_found_alike(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compare(seed, 120) > 100


@pytest.mark.slow
def test_thousands_of_generated_targets_are_stored_and_found_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sum(compare(seed, 150) for seed in range(100, 140)) > 5000


def test_generated_refusals_have_llvms_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("input").touch()
    rng = random.Random(7)
    for _ in some(range(60)):
        targets = [random_target(rng, rng.choice(["host", "hip", "openmp", "HIP", "cuda", ""])) for _ in range(2)]
        at = rng.randrange(2)
        parts = targets[at].split("-")
        parts[1] = rng.choice(["x86", "x64", "", "gfx906", "spir64_gen", "amdgpu", parts[1]])
        targets[at] = "-".join(parts[: rng.choice([3, 4, 5, 6, 7])])
        arguments = ["-type=bc", f"-targets={','.join(targets)}", "-input=input", "-input=input", "-output=made"]
        done = subprocess.run([tool(NAME), *arguments], capture_output=True, text=True)
        code = main(["tool", tool(NAME), *arguments])
        assert (code, capfd.readouterr().err) == (done.returncode, done.stderr), targets


def test_a_hundred_entries_are_listed_in_the_order_of_llvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("input").touch()
    rng = random.Random(3)
    every = [f"{kind}-amdgcn-amd-amdhsa--{processor}" for kind in ("hip", "hipv4") for processor in PROCESSORS]
    for count in (1, 11, 12, 13, 24, 25, 100):
        targets = rng.sample(every, count)
        inputs = ["-input=input"] * len(targets)
        assert main(["tool", NAME, "-type=bc", f"-targets={','.join(targets)}", *inputs, "-output=made"]) == 0
        capfd.readouterr()
        assert main(["tool", NAME, "-type=bc", "-list", "-input=made"]) == 0
        done = subprocess.run([tool(NAME), "-type=bc", "-list", "-input=made"], capture_output=True, text=True)
        assert capfd.readouterr().out == done.stdout


#: Names without an instruction set, and names of sets of which none is a family with another of them in it.
AMD = ["amdgcn", "amdgpu", "amdgpu9", "amdgpu9.0a", "amdgpu12.50"]
TARGET_IDS = ["", "gfx90a:xnack+", "gfx1250", "gfx1250:sramecc+"]


@pytest.mark.sweep(99)
@pytest.mark.parametrize("stored", AMD)
def test_the_names_of_llvm_23_for_amd_serve_each_other_as_there(stored: str, tmp_path: Path) -> None:
    """Every name and target-id, stored and asked for: which ID is stored, and whether it is handed out."""
    real = llvm_tool(NAME, "23")
    image = tmp_path / "image"
    image.write_bytes(b"x")

    def ran(command: list[str], arguments: list[str], output: str) -> tuple[int, bytes]:
        path = tmp_path / output
        path.unlink(missing_ok=True)
        done = subprocess.run([*command, "-type=bc", *arguments, f"-output={path}"], capture_output=True, check=False)
        return done.returncode, path.read_bytes() if path.exists() and not done.returncode else b""

    def ours(arguments: list[str], output: str) -> tuple[int, bytes]:
        path = tmp_path / output
        path.unlink(missing_ok=True)
        code = main(["tool", "--as=23", NAME, "-type=bc", *arguments, f"-output={path}"])
        return code, path.read_bytes() if path.exists() and not code else b""

    for target_id in TARGET_IDS:
        arguments = [f"-targets=hip-{stored}-amd-amdhsa--{target_id}", f"-input={image}"]
        made = ran([real], arguments, "theirs")
        assert ours(arguments, "ours") == made
        for asked in AMD:
            for wanted in TARGET_IDS:
                request = [f"-targets=hip-{asked}-amd-amdhsa--{wanted}", f"-input={tmp_path / 'theirs'}", "-unbundle"]
                assert ours(request, "x") == ran([real], request, "y"), (arguments, request)
