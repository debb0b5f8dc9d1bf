"""Where the images made for a name run, as far as its vendor's rules say: ``fatpack targets NAME --runs-on``."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.targets.nvidia import NvidiaArch, can_load, parse_nvidia
from fatpack.targets.vocabulary import check_target_id, load_vocabulary, unknown_name, without_prefix


class Coverage(Record):
    """Where one form of image runs: ``form`` is cubin, ptx or image, ``rule`` the reason in words.

    ``names`` are the known names it runs on; ``doubtful`` those of which nobody knows for sure: Tegra parts under a
    driver of servers, and what a renaming or a guide that few have seen leaves open.
    """

    form: str
    rule: str
    names: tuple[str, ...]
    doubtful: tuple[str, ...] = ()


def run_coverage(name: str) -> tuple[Coverage, ...]:
    """Return where images for a name run, one entry per form of image.

    ``name`` is an architecture, an AMD target ID or alias, or an Intel device. Raises TargetError for another.
    """
    words = load_vocabulary()
    name = without_prefix(name)
    arch = parse_nvidia(name)
    if arch is not None and name in words.nvidia:
        return tuple(_nvidia(arch, form) for form in (("ptx",) if arch.is_virtual else ("cubin", "ptx")))
    if name.partition(":")[0] in words.amd:
        return (_amd(name),)
    if name in words.intel:
        line = words.intel[name]
        compiler = {"gpu": f"ocloc -device {line.compiler}", "cpu": f"opencl-aot -march={line.compiler}"}
        rule = compiler.get(line.kind, "the devices of that name")
        return (Coverage("image", f"what it was compiled for: {rule}", line.covers or line.names),)
    members = words.members(name)
    if members and members != (name,):
        return (Coverage("image", "every processor of the family", members),)
    raise unknown_name(name)


def nvidia_capabilities() -> tuple[NvidiaArch, ...]:
    """Return the compute capabilities that NVIDIA devices have, by architecture name, oldest first."""
    lines = load_vocabulary().nvidia.values()
    found = (parse_nvidia(line.name) for line in lines if not line.renamed)
    return tuple(arch for arch in found if arch is not None and not arch.suffix and not arch.is_virtual)


def _nvidia(arch: NvidiaArch, form: str) -> Coverage:
    rulings = [(device.name, can_load(arch, device, form)) for device in nvidia_capabilities()]
    return Coverage(
        form,
        can_load(arch, arch, form).rule,
        tuple(name for name, ruling in rulings if ruling.answer and ruling.is_certain),
        tuple(name for name, ruling in rulings if not ruling.is_certain),
    )


def _amd(name: str) -> Coverage:
    target_id = check_target_id(name)
    line = load_vocabulary().amd[target_id.processor]
    if line.kind == "portable":
        rule = "AMD GPUs under a HIP runtime that compiles SPIR-V when it is loaded; OpenMP and kpack do not"
        return Coverage("image", rule, ())
    states = {"+": "on", "-": "off"}
    fixed = " and ".join(f"{feature[:-1]} {states[feature[-1]]}" for feature in target_id.features)
    rule = "the processors that it covers" if line.kind == "generic" else "this processor"
    names = tuple(":".join((member, *target_id.features)) for member in line.serves)
    return Coverage("image", f"{rule}, with {fixed}" if fixed else rule, names)
