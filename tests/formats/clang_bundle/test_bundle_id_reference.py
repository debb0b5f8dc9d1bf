"""The rules for IDs compared with clang-offload-bundler 22, on many random ones per call."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests import reference
from tests.builders import archive

from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle.bundle_id import (
    conflict_llvm22,
    is_compatible_id_llvm22,
    refusal_llvm22,
    stored_by_llvm22,
)
from fatpack.io.source import Span
from fatpack.model import Container
from fatpack.targets import llvm_triple
from fatpack.testing.helpers import join_pieces, make_image, make_view

pytestmark = pytest.mark.reference

BUNDLER = "clang-offload-bundler"
VENDORS = ["", "unknown", "pc", "apple", "suse", "nvidia", "amd", "w64", "redhat", "none"]
SYSTEMS = """linux windows win32 darwin23 macosx13 amdhsa amdhsa1.0 cuda mingw32 cygwin msys none uefi freebsd13 aix
    xros visionos unknown""".split()
ENVIRONMENTS = """gnu gnueabi gnueabihf msvc android21 androideabi21 androideabi elf coff macho xcoff musl gnuelf wasm
    eabi unknown""".split()
PROCESSORS = """gfx906 gfx90a:sramecc+:xnack- gfx90a:xnack-:sramecc+ gfx906:xnack+ gfx906:xnack- gfx940 gfx9999:xnack+
    gfx906:sramecc+:xnack+ gfx906: gfx1030 sm_70 sm_90a sm_100f generic gfx9-4-generic gfx9-4-generic:xnack+ x86-64-v2
    amdgcnspirv tahiti""".split()


def bundle(targets: Sequence[str], folder: Path, *, check: bool = True) -> str:
    """Bundle one empty file for every target; return the tool's complaints."""
    inputs = ["-input=/dev/null"] * len(targets)
    command = [BUNDLER, "-type=bc", f"-targets={','.join(targets)}", *inputs, f"-output={folder / 'out'}"]
    return reference.run(*command, check=check).stderr.decode()


def stored_ids(path: Path) -> list[str]:
    container = clang_bundle.parse(make_view(path.read_bytes()), strict=True)
    return [item.attrs["id"] for item in container.images]


def without_conflicts(targets: Sequence[str]) -> list[str]:
    kept = list(dict.fromkeys(targets))
    while found := conflict_llvm22(kept):
        kept.remove(found[1])
    return kept


@pytest.mark.parametrize("seed", range(12))
def test_normal_forms_of_random_targets_are_those_of_llvm(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    anything = [*VENDORS, *SYSTEMS, *ENVIRONMENTS, "x86_64"]
    architectures = sorted(llvm_triple.ARCHITECTURES)
    targets = []
    for _ in range(400):
        own = [rng.choice(part if rng.random() < 0.7 else anything) for part in (VENDORS, SYSTEMS, ENVIRONMENTS)]
        known = rng.choice(architectures if rng.random() < 0.3 else ["x86_64", "amdgcn", "nvptx64", "spirv64"])
        processor = [rng.choice(PROCESSORS)] if rng.random() < 0.6 else []
        targets.append("-".join([rng.choice(["hip", "hipv4"]), known, *own, *processor]))
    targets = without_conflicts(targets)
    bundle(targets, tmp_path)
    assert stored_ids(tmp_path / "out") == [stored_by_llvm22(target) for target in targets]


def test_every_architecture_word_is_known_to_llvm(tmp_path: Path) -> None:
    bundle([f"hip-{word}-unknown-linux-gnu" for word in sorted(llvm_triple.ARCHITECTURES)], tmp_path)


def test_every_processor_is_known_to_llvm(tmp_path: Path) -> None:
    targets = [f"hip-x86_64-unknown-linux-gnu-{processor}" for processor in sorted(llvm_triple.PROCESSORS_LLVM22)]
    bundle(targets, tmp_path)
    assert stored_ids(tmp_path / "out") == targets


@pytest.mark.parametrize(
    "target",
    [
        "x",
        "hip-x86_64-a-b",
        "cuda-x86_64-a-b-c",
        "hip-x86-a-b-c",
        "Hip-amdgpu-a-b-c-d",
        "-x86_64-a-b-c",
        "sycl-spir64_gen-a-b-c-d",
        "hip-amdgcn-amd-amdhsa-",
    ],
)
def test_refusals_are_word_for_word_those_of_llvm(target: str, tmp_path: Path) -> None:
    message = bundle([target], tmp_path, check=False).strip()
    assert message.partition("error: ")[2] == refusal_llvm22(target)


def served(entries: Sequence[str], requests: Sequence[str], folder: Path, *options: str) -> list[set[int]]:
    """Return for every request the entries that the tool extracts from an archive of one-entry bundles."""
    members = []
    for number, entry in enumerate(entries):
        item = make_image(b"%06d" % number, attrs={"id": entry})
        data = join_pieces(clang_bundle.write(Container("", 0, (item,), Span(0, 0))))
        members.append(archive.member(b"m%d.o/" % number, data))
    (folder / "in.a").write_bytes(archive.GNU + b"".join(members))
    outputs = [folder / f"{number}.a" for number in range(len(requests))]
    command = [BUNDLER, "-type=a", "-unbundle", "-allow-missing-bundles", f"-input={folder / 'in.a'}", *options]
    reference.run(*command, f"-targets={','.join(requests)}", *(f"-output={output}" for output in outputs))
    return [payloads(output.read_bytes()) for output in outputs]


def payloads(data: bytes) -> set[int]:
    """Return the six-digit numbers in the members of an archive."""
    found, at = set(), 8
    while at < len(data):
        size = int(data[at + 48 : at + 58])
        if not data[at : at + 16].startswith(b"//"):
            found.add(int(data[at + 60 : at + 60 + size]))
        at += 60 + size + size % 2
    return found


@pytest.mark.sweep(99)
@pytest.mark.parametrize("seed", range(8))
def test_compatibility_of_random_pairs_is_that_of_llvm(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    architectures = [["amdgcn"], ["amdgcn", "nvptx64"], ["x86_64", "amd64", "i686"], ["aarch64", "arm64", "arm64e"]][
        seed % 4
    ]
    rest = [("amd", "amdhsa", ""), ("amd", "amdhsa", "unknown"), ("unknown", "linux", "gnu")]
    if seed >= 4:
        rest = [
            (vendor, name, env)
            for vendor in ("apple", "pc", "redhat", "w64")
            for name in ("linux", "windows", "darwin23", "uefi")
            for env in ("", "gnu", "elf", "coff")
        ]

    def some(count: int) -> list[str]:
        kinds, processors = ["hip", "hipv4", "openmp"], ["", *PROCESSORS]
        found = [
            "-".join([rng.choice(kinds), rng.choice(architectures), *rng.choice(rest), rng.choice(processors)])
            for _ in range(count)
        ]
        return list(dict.fromkeys(found))

    entries = some(250)
    requests = without_conflicts(list({stored_by_llvm22(target): target for target in some(120)}.values()))
    options = ["-hip-openmp-compatible"] if seed % 2 else []
    expected = [
        {n for n, entry in enumerate(entries) if is_compatible_id_llvm22(entry, request, hip_openmp=bool(options))}
        for request in requests
    ]
    assert sum(map(len, expected)) > 20
    assert served(entries, requests, tmp_path, *options) == expected


def test_conflicts_of_random_targets_are_those_of_llvm(tmp_path: Path) -> None:
    rng = random.Random(1)
    conflicts = 0
    for _ in range(120):
        targets = []
        for _ in range(rng.randint(2, 5)):
            features = [f":{name}{rng.choice('+-')}" for name in rng.sample(["xnack", "sramecc"], rng.randint(0, 2))]
            processor = rng.choice(["gfx906", "gfx90a", "gfx940", "gfx9-4-generic"])
            kind, env = rng.choice(["hip", "hipv4"]), rng.choice(["", "unknown"])
            targets.append(f"{kind}-amdgcn-amd-amdhsa-{env}-{processor}{''.join(features)}")
        targets = list(dict.fromkeys(targets))
        found = conflict_llvm22(targets)
        message = f"Cannot bundle inputs with conflicting targets: '{found[0]}' and '{found[1]}'" if found else ""
        assert bundle(targets, tmp_path, check=False).strip().partition("error: ")[2] == message
        conflicts += found is not None
    assert conflicts > 10
