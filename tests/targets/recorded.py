"""Answers of the rules of targets over all names, as text: ``python -m tests.targets.recorded`` records them again.

The rules have judges of their own (``test_reference.py``, tests/judges, the cases observed on devices); what is
recorded here shows which answers a change of a rule changes. Review the diff.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fatpack.errors import FatpackError
from fatpack.model import Target
from fatpack.targets import devices
from fatpack.targets.compatibility import (
    accepts_image,
    can_serve,
    can_serve_hip,
    effective_processor,
    hip_target_ids,
    joins_group,
)
from fatpack.targets.llvm_triple import normalize_triple, parse_llvm_triple
from fatpack.targets.nvidia import NvidiaArch, can_load, cuda_versions, first_cuda_for_ptx, parse_nvidia
from fatpack.targets.selection.dead import find_dead, nvidia_numbers
from fatpack.targets.selection.drivers import driver_branches, driver_cuda, first_branch_with
from fatpack.targets.selection.model import CandidateImage, image_vendor
from fatpack.targets.selection.runtime_settings import RuntimeSettings, with_variables
from fatpack.targets.selection.select_image import CandidateSet, first_cuda_for_device, required_cuda, select_image
from fatpack.targets.triple import (
    as_llvm22,
    is_amdgpu,
    is_nvptx,
    triple_identity,
    triple_processor,
    triple_spellings,
    without_sub_architecture,
)
from fatpack.targets.vocabulary import default_triple, load_vocabulary, nearest_names, resolve_target

FOLDER = Path(__file__).parent / "answers"


def grouped(answers: Iterable[tuple[str, object]]) -> str:
    """Return answers by what they say, in the order of the first of each: ``sm_80 sm_86: yes``."""
    found: dict[str, list[str]] = {}
    for name, said in answers:
        found.setdefault(str(said), []).append(name)
    return "".join(f"  {' '.join(names)}: {said}\n" for said, names in found.items())


def said(ask: Callable[[], object]) -> str:
    """Return an answer, or the words of the error in its place."""
    try:
        return str(ask())
    except FatpackError as error:
        return f"error: {error}"


def marked(answer: bool, is_certain: bool, *words: str) -> str:
    return " | ".join([("yes" if answer else "no") + ("" if is_certain else "?"), *words])


def names() -> Iterator[str]:
    """Each name: its triple, the device of that name, and where code for it runs."""
    words = load_vocabulary()
    for name in (*words.names(), *(f"amdgpu{family}" for family in words.families)):
        yield f"{name}: {default_triple(name)}; {said(lambda name=name: _device(name))}\n"
        for part in (
            () if said(lambda name=name: devices.run_coverage(name)).startswith("error") else devices.run_coverage(name)
        ):
            yield f"  {part.form}: {part.rule}: {' '.join(part.names)}; {' '.join(part.doubtful)}\n"
    for typed in [*(each.strip() for each in TYPED.split("|")), f"RTX 4091{' ' * 90}.", f"nothing{' like it' * 20}"]:
        yield f"{typed!r}: {said(lambda typed=typed: _device(typed))}\n"
        yield f"  {said(lambda typed=typed: resolve_target(typed))}; {' '.join(nearest_names(typed))}\n"


def _device(name: str) -> str:
    device = devices.parse_device(name)
    return f"{device.vendor} {device.words} {' '.join(device.states)} since {first_cuda_for_device(device)}"


#: Names as people type them.
TYPED = """
RTX 4090 | rtx4090 | RTX 4091 | RTX | H100 | NVIDIA H100 80GB HBM3 | nvidia h100 pcie | TITAN X |
GeForce RTX 3070 Ti Laptop GPU | MI300X | AMD Instinct MI300X | mi-300x | Radeon RX 7900 XTX | Arc A770 |
intel arc a770 | pvc | intel_gpu_pvc | xe-pvc | 8.6 | 12.1 | 9.9 | 8.6.1 | sm_85 | sm_91a | compute_85 |
gfx90b | gfx90a:xnack | gfx90a:xnack+ | gfx1100:xnack+ | gfx9-generic | amdgcnspirv | GTX 1080 | Quadro |
A100-SXM4-40GB | Tesla T4 | T4 | NVIDIA A100-SXM4-80GB MIG 1g.10gb | Tesla V100-SXM2-16GB | Jetson AGX Orin |
nothing like it | AMD MI300X | Intel A770 | amd | Intel Arc | L40 | L4 | B200 | GB200
"""


def loading() -> Iterator[str]:
    """Each image for NVIDIA: the devices that load it, by the CUDA version of the driver where it matters."""
    named = [arch for name in load_vocabulary().nvidia if (arch := parse_nvidia(name)) and not arch.is_virtual]
    named += [NvidiaArch(130, "f"), NvidiaArch(90, "f"), NvidiaArch(101, "f"), NvidiaArch(107, "f"), NvidiaArch(99)]
    against = [NvidiaArch(arch.number) for arch in named if not arch.suffix] + [NvidiaArch(131), NvidiaArch(87, "a")]
    for image, form in itertools.product(named, ("cubin", "ptx")):
        yield f"{image.name} {form}\n"
        for driver in (None, (12, 9), (13, 0)):
            rulings = [(each.name, can_load(image, each, form, driver)) for each in against]
            if driver is None or any(
                ruling != can_load(image, each, form) for each, (_, ruling) in zip(against, rulings, strict=True)
            ):
                yield f" driver {driver}\n" * (driver is not None)
                yield grouped((name, marked(ruling.answer, ruling.is_certain, ruling.rule)) for name, ruling in rulings)
    texts = ((f"{major}.{minor}", first_cuda_for_ptx((major, minor))) for major in range(5, 11) for minor in range(10))
    yield "PTX\n" + grouped(texts)
    yield f"CUDA {cuda_versions()}\ncapabilities {nvidia_numbers()}\n"
    for row in driver_branches():
        yield f"driver {row.branch} {row.windows}: {row.cuda} {row.first} {driver_cuda(f' {row.branch}.10 ')}\n"
    yield grouped((str(cuda), (first_branch_with(cuda) or row).branch) for cuda in cuda_versions())
    yield grouped(
        (text, said(lambda text=text: driver_cuda(text))) for text in ("", "x", "1", "99999", "99991", "535", "31")
    )


AMD = "amdgcn-amd-amdhsa"
NVIDIA = "nvptx64-nvidia-cuda"

#: Triple, offload and the arch strings; ``-`` is an empty one.
GROUPS = """
amdgcn-amd-amdhsa hip - generic gfx90a gfx90a:xnack+ gfx90a:xnack- gfx90a:sramecc+:xnack- gfx9-generic
amdgcn-amd-amdhsa hip gfx9-generic:xnack- gfx900 gfx942 gfx9-4-generic tahiti gfx600 gfx940 gfx1400 gfx1400:xnack+
amdgcn-amd-amdhsa hip gfx1100:xnack+ :xnack+
amdgcn-amd-amdhsa hip gfx90a::xnack+
amdgpu9.0a-amd-amdhsa - -
amdgpu9-amd-amdhsa - -
amdgpu6-amd-amdhsa - -
amdgpu9.5-amd-amdhsa - -
amdgpu9.4-amd-amdhsa - - gfx942
amdgcn-amd-amdpal - gfx90a
nvptx64-nvidia-cuda cuda - generic sm_80 sm_90a sm_87 compute_80 sm_101a sm_110
- - gfx90a sm_86 pvc -
spir64 - - pvc
amdgcn--amdhsa - gfx90a:xnack+:sramecc-
"""

TARGETS = [
    Target(triple, arch, offload)
    for triple, offload, *archs in (
        [word.strip("-") if word == "-" else word for word in line.split()] for line in GROUPS.strip().splitlines()
    )
    for arch in archs
]


def spelled(target: Target) -> str:
    return f"{target.triple.partition('-')[0] + target.triple[-4:] if target.triple else ''}/{target.arch}"


def serving() -> Iterator[str]:
    """Each target: what an image for it serves, by the rules of LLVM, of drivers, of HIP and of linkers."""
    for provider in TARGETS:
        yield f"{spelled(provider)} {effective_processor(provider)!r}\n"
        for form in ("", "cubin", "ptx", "ltoir"):
            if form and not (provider.triple == NVIDIA or provider.arch.startswith("sm_")):
                continue
            verdicts = (
                (other, can_serve(provider, other, nvidia_rules=bool(form), form=form or "cubin")) for other in TARGETS
            )
            yield f" {form}\n"
            yield grouped(
                (spelled(other), marked(one.answer, not one.is_assumed, one.reason)) for other, one in verdicts
            )
        accepted = " ".join(spelled(other) for other in TARGETS if accepts_image(provider, other))
        yield f" accepts {accepted}\n"
        for llvm in ("22", "23"):
            joined = " ".join(spelled(other) for other in TARGETS if joins_group(provider, other, llvm))
            yield f" joins {llvm} {joined}\n"
    ids = [target.arch for target in TARGETS if target.triple == AMD] + [
        "gfx1030",
        "amdgcnspirv",
        "gfx1250:sramecc+",
        "gfx900:xnack-",
    ]
    for entry in ids:
        yield f"HIP {entry}: {' '.join(hip_target_ids(entry))}\n"
        yield grouped(
            (name, marked(bool(one), True, one.reason)) for name in ids for one in [can_serve_hip(entry, name)]
        )
    for name in load_vocabulary().amd:
        yield f"{name}: {' '.join(hip_target_ids(name))}\n"


TYPED_TRIPLES = """
x86_64-gnu-linux x86_64-gnu-linux-a x86_64-elf-linux x86_64-gnu-a-linux x86_64-musl-apple a-gnu-windows
x86_64-eabi-none-a x86_64-a-mingw32 x86_64-a-msys x86_64-a-cygwin-gnu
amdgcn amdgpu amdgpu9.0a-amd-amdhsa amdgpu9-amd-amdhsa amdgpu10-amd-amdhsa amdgpu9.5 amdgpu9.4-amd-amdhsa
amdgpu11.7 amdgpu9.xy amdgpu9.123 amdgpux amdgpu6-amd-amdhsa amdgpu-amd-amdhsa amdgpu9.0ä-a amd64-pc-linux-gnu
arm64-- ppc64le-unknown-linux ppc64- x86_64-unknown x86_64 -- x86_64-linux-gnu x86_64-w64-mingw32 i686-pc-cygwin
x86_64-pc-win32 x86_64-pc-windows-msvc-coff x86_64-windows-gnu-elf arm64-apple-darwin23 aarch64-apple-ios-simulator
x86_64-suse-linux-gnueabi powerpc-ibm-aix powerpc64-ibm-aix powerpc64-pc-windows s390x-ibm-zos
wasm32-unknown-emscripten spirv64v1.6 kalimba3 armv7-none-linux-gnueabihf thumbv7m-none-eabi armv7-apple-ios
aarch64-linux-androideabi21 x86_64-none--gnu i386-msvc-pc x86_64-gnu-linux-pc x86_64-linux-pc-gnu
x86_64--linux-musl-a x86_64-uefi arm64e-apple-macos13 x86_64-pc-linux-gnu-x x86_64-a-b-c-d x86_64-a-linux-b-c
x86_64-mingw-gnu x86_64-gnu x86_64-elf x86_64-pc-linux-elf mips64-linux-gnuabi64
"""


def triples() -> Iterator[str]:
    """Each triple, as it is compared, spelled, normalised and parsed."""
    known = dict.fromkeys([*(line.triple for line in load_vocabulary().triples), *TYPED_TRIPLES.split()])
    for triple in known:
        kind = "amd" * is_amdgpu(triple) + "nvidia" * is_nvptx(triple)
        yield f"{triple!r} {kind} {triple_processor(triple)} {without_sub_architecture(triple)}"
        yield f" {triple_identity(triple)}\n"
        spellings = [triple_spellings(triple, arch) for arch in ("", "gfx90a:xnack+", "gfx9-4-generic", "gfx1100")]
        yield f"  {as_llvm22(triple, '')} {as_llvm22(triple, 'generic:xnack+')} {spellings if kind == 'amd' else ''}\n"
        normal = normalize_triple(triple)
        yield f"  {normal} {normalize_triple(triple, 3)} {parse_llvm_triple(normal)}\n"
    for first, second in itertools.combinations(map(parse_llvm_triple, map(normalize_triple, known)), 2):
        if first.is_compatible(second):
            yield f"{'-'.join(vars_of(first))} and {'-'.join(vars_of(second))}\n"


def vars_of(triple: object) -> tuple[str, ...]:
    return tuple(
        str(getattr(triple, name)) for name in ("architecture", "vendor", "system", "environment", "object_format")
    )


def image(text: str) -> CandidateImage:
    """Return an image of a word: form-version=arch/contents@triple!actual, each but the form optional."""
    text, _, actual = text.partition("!")
    text, _, triple = text.partition("@")
    form, _, arch = text.partition("=")
    form, _, version = form.partition("-")
    number = tuple(map(int, version.split("."))) if form == "ptx" and version else None
    code_object = int(version) if form == "co" and version else None
    method = version if form == "cubin" and version else None
    form = {"co": "code-object"}.get(form, form)
    arch, _, contents = arch.partition("/")
    return CandidateImage(form, arch, triple, number, method, contents, code_object, actual)  # type: ignore[arg-type]


def sets(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


SETS = {
    "cuda": sets("""
cubin=sm_80 ptx=sm_75
cubin=sm_80 cubin=sm_86 ptx-9.4=sm_90
cubin=sm_90 cubin=sm_90a ptx=sm_90a
cubin=sm_100f cubin=sm_100 ptx=sm_120
cubin=sm_87 cubin=sm_80
cubin=sm_101a ltoir=sm_90
cubin-zstd=sm_90 ptx-8.0=sm_80
cubin=sm_90/sm_80 ptx=sm_80
cubin=sm_90!damaged
cubin=sm_90!ptx ptx=sm_90!unknown
relocatable-ptx=sm_90 ptx=sm_80
cubin=sm_88 ptx-8.6=sm_100f
cubin=sm_120f cubin=sm_120 cubin=sm_121
cubin=sm_80 cubin=sm_86 cubin=sm_89 cubin=sm_90 cubin=sm_100 cubin=sm_120 ptx=sm_80 ptx=sm_120
cubin=sm_80 cubin=sm_86 cubin=sm_89 cubin=sm_90 ptx=sm_80 ptx=sm_90
"""),
    "openmp": sets("""
cubin=sm_80@nvptx64-nvidia-cuda cubin=sm_89@nvptx64-nvidia-cuda
cubin=sm_100a@nvptx64-nvidia-cuda ptx=sm_80@nvptx64-nvidia-cuda
co=gfx90a:xnack+@amdgcn-amd-amdhsa co=gfx11-generic@amdgcn-amd-amdhsa co=gfx90a@amdgcn-amd-amdhsa
spirv=@spirv64-intel co=@x86_64-pc-linux-gnu
"""),
    "sycl": sets("""
spirv=@spir64 co=acm_g10@spir64_gen co=pvc@spir64_gen
co=@spir64_x86_64 spirv=@spir64-unknown-unknown
cubin=sm_80@nvptx64-nvidia-cuda ptx=sm_90@nvptx64-nvidia-cuda
co=gfx90a@amdgcn-amd-amdhsa
"""),
    "hip": sets("""
co=gfx90a co=gfx90a:xnack+ co=gfx90a:xnack-
co=gfx9-4-generic co=gfx942:sramecc+
co=gfx11-generic spirv=amdgcnspirv co=gfx1100
co-6=gfx10-3-generic co=gfx1030:xnack+
bitcode=gfx90a co=gfx90a!damaged
co=gfx900 co=gfx9-generic
"""),
    "libgomp": sets("""
ptx=sm_35 ptx-6.3=sm_53 ptx=sm_80
co=gfx90a co=gfx900 co=gfx9-generic
"""),
}  # fmt: skip

DEVICES = {
    "cuda": "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_103 sm_110 sm_120 sm_121".split(),
    "openmp": "sm_86 sm_90 sm_103 gfx90a gfx1100 pvc".split(),
    "sycl": "sm_86 sm_90 gfx90a acm_g10 pvc skx".split(),
    "hip": "gfx90a gfx942 gfx1100 gfx1030 gfx1031 gfx900 gfx906".split(),
    "libgomp": "sm_50 sm_70 sm_90 gfx90a gfx900 gfx906".split(),
}

SETTINGS = {
    "cuda": [
        RuntimeSettings(),
        RuntimeSettings(driver=(12, 2)),
        RuntimeSettings(driver=(13, 0), forces_ptx=True),
        RuntimeSettings(driver=(13, 0), disables_ptx=True),
    ],
    "openmp": [RuntimeSettings(), RuntimeSettings(driver=(11, 4), forces_ptx=True, disables_ptx=True)],
    "sycl": [RuntimeSettings(), RuntimeSettings(driver=(13, 0), forces_ptx=True, disables_ptx=True)],
    "hip": [
        RuntimeSettings(),
        RuntimeSettings(rocm=(6, 2), xnack="+"),
        RuntimeSettings(rocm=(7, 2), forces_spirv=True, xnack="-"),
        RuntimeSettings(override="gfx1030"),
    ],
    "libgomp": [RuntimeSettings(), RuntimeSettings(driver=(12, 2))],
}


#: Variables of programs, as they are set.
VARIABLES = (
    "CUDA_FORCE_PTX_JIT=1 CUDA_FORCE_PTX_JIT=0 CUDA_FORCE_PTX_JIT=2 CUDA_DISABLE_PTX_JIT=1 HSA_XNACK=0 HSA_XNACK=1"
)
VARIABLES += " HSA_XNACK= HSA_OVERRIDE_GFX_VERSION=10.3.0 HSA_OVERRIDE_GFX_VERSION=9.0.10 HSA_OVERRIDE_GFX_VERSION=9.0"
VARIABLES += f" HSA_OVERRIDE_GFX_VERSION=9.0.100 HSA_OVERRIDE_GFX_VERSION={'9.' * 50} HIP_FORCE_SPIRV_CODEOBJECT=1"
VARIABLES += f" X={'x' * 100} {'X' * 100}=1 HSA_XNACK={'1' * 100} CUDA_FORCE_PTX_JIT={'1' * 100}"


def selection() -> Iterator[str]:
    """Each set of images: what a device takes of it, the rule and the reason, and whether each image fits."""
    for variable in VARIABLES.split():
        yield f"{said(lambda variable=variable: with_variables(RuntimeSettings(), [variable]))}\n"
    for offload, listed in SETS.items():
        for texts in listed:
            images = tuple(map(image, texts))
            yield f"{offload} {' '.join(texts)}: {' '.join(image_vendor(each.triple, each.arch) for each in images)}"
            yield f" {[required_cuda(each) for each in images]}\n"
            for settings in SETTINGS[offload]:
                is_forced = settings.forces_ptx or settings.forces_spirv
                yield f" {settings.driver} {settings.rocm} {settings.xnack} {settings.override} forced={is_forced}\n"
                yield grouped(_selected(offload, CandidateSet(images, offload), settings))
            for more in (
                {"is_bare": True},
                {"bundle_version": 1},
                {"bundle_version": 3},
                {"is_kpack": True},
                {"is_module": True},
            ):
                if offload == {"is_bare": "cuda", "is_module": "sycl"}.get(next(iter(more)), "hip"):
                    found = _selected(offload, CandidateSet(images, offload, **more), RuntimeSettings(rocm=(7, 1)))  # type: ignore[arg-type]
                    yield f" {more}\n" + grouped(found)
            for is_linked in (False, True):
                dead = find_dead(images, offload, is_linked=is_linked)
                yield f" dead {[(at, row.reason, row.words) for at, row in dead.items()]}\n"


def _selected(offload: str, images: CandidateSet, settings: RuntimeSettings) -> Iterator[tuple[str, str]]:
    for name in DEVICES[offload]:
        for found in select_image(images, devices.parse_device(name), settings):
            fits = ", ".join(f"{one.rule} {marked(one.fits, one.is_certain, one.reason)}" for one in found.judgements)
            # Variables change which images fit, versions hardly do.
            is_told = settings == RuntimeSettings() or settings.forces_ptx or settings.forces_spirv
            fits = f" [{fits}]" * is_told
            taken = f"{found.outcome} {found.image} {found.possible}{'' if found.is_certain else '?'}"
            yield found.state or name, f"{taken} {found.rule} {found.reason} {found.error or ''} {found.text}{fits}"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    table.__name__: table for table in (names, loading, serving, triples, selection)
}


def main() -> None:
    for name, table in TABLES.items():
        (FOLDER / f"{name}.txt").write_text("".join(table()), encoding="utf-8")


if __name__ == "__main__":
    main()
