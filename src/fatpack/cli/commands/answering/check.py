"""``fatpack check``: whether files keep to a policy, whether what is installed or made of one source fits together."""

from __future__ import annotations

import os
import sys

from fatpack.cli.grammar.declared import argument, option, takes
from fatpack.cli.grammar.kinds import FILE, INPUT, TARGET, Choice
from fatpack.cli.options import deep_option, exclude_option, limit_option, max_inflated_option, schema_option
from fatpack.errors import FatpackError, UsageError, counted
from fatpack.outcomes import FINE, code_of, exit_code, message, worst
from fatpack.report.answers.kpack import SCHEMA
from fatpack.report.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Variables that ROCm's loader reads, and this command does not.
VARIABLES = ("ROCM_KPACK_PATH", "ROCM_KPACK_PATH_PREFIX", "ROCM_KPACK_DISABLE")

#: What the outcome of a policy is written as.
OUTPUTS = ("text", "json", "github", "junit", "sarif")


@takes(
    argument("paths", INPUT, metavar="PATH...", is_many=True),
    option(
        "--require",
        multiple=True,
        metavar="LIST",
        help="Devices that every unit must serve, by the rules of their runtimes: sm_80,sm_120+ptx,gfx942 or "
        "'RTX 4090'; @NAME is a preset. Repeatable.",
    ),
    option(
        "--forbid",
        multiple=True,
        metavar="PATTERN",
        help="No image may be for such an architecture, as sm_5*. Repeatable.",
    ),
    option("--max-size", metavar="SIZE", help="The most bytes that each PATH may have, as 850MB or 800MiB."),
    option("--max-growth", metavar="GROWTH", help="With --against: how much PATH may be larger, as 5% or 20MB."),
    option("--against", type=FILE, metavar="OLD", help="With --max-growth: the file or folder that PATH was before."),
    option("--uniform", is_flag=True, help="Every kernel must be there for every architecture of its library."),
    option("--registered", is_flag=True, help="What libraries launch must be registered, and lead to images."),
    option(
        "--metadata",
        is_flag=True,
        help="What packages declare must be in them: variant.json, extras and classifiers of wheels, __cuda_arch of "
        "conda, X-ROCm-GPU-Architecture of Debian. What is unpacked is not read.",
    ),
    option(
        "--per",
        type=Choice(("unit", "library")),
        help="What must serve a device: each unit, the default, or something in each library.",
    ),
    option(
        "--config", type=FILE, metavar="FILE", help="A TOML file with a policy, instead of the nearest pyproject.toml."
    ),
    option("--no-config", is_flag=True, help="Read no pyproject.toml."),
    option("--presets", name="list_presets", is_flag=True, help="List the presets, with what they require, and exit."),
    exclude_option,
    deep_option,
    option(
        "--kernels",
        is_flag=True,
        help="Name the kernels that lack something of large libraries too, which takes longer.",
    ),
    option(
        "--output",
        type=Choice(OUTPUTS),
        help="What a policy's outcome is printed as; github also appends to the file of GITHUB_STEP_SUMMARY.",
    ),
    option("--stages", is_flag=True, help="PATHs are files of one unit: what did later stages lose of earlier ones?"),
    option(
        "--kpack",
        is_flag=True,
        help="PATH is a folder: check that its programs find their device code in kpack archives.",
    ),
    option(
        "--device",
        multiple=True,
        type=TARGET,
        metavar="TARGET",
        help="With --kpack: a device that must be served, as gfx90a:xnack-; repeatable. Default: all of the archives.",
    ),
    option(
        "--newer-loader",
        is_flag=True,
        help="With --kpack: only loaders since rocm-systems#9874 count, which try all archives, not one.",
    ),
    option(
        "--kpack-path",
        multiple=True,
        type=FILE,
        metavar="FILE",
        help="With --kpack: an archive in the place of those that programs look for; repeatable.",
    ),
    option("--json", name="as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}."),
    schema_option,
    max_inflated_option,
    limit_option,
    option(
        "-v",
        "--verbose",
        count=True,
        help="Show all units and kernels; with --stages those of each stage, with --kpack what each program gets.",
    ),
)
def command(
    paths: tuple[str, ...],
    *,
    require: tuple[str, ...],
    forbid: tuple[str, ...],
    max_size: str | None,
    max_growth: str | None,
    against: str | None,
    uniform: bool,
    registered: bool,
    metadata: bool,
    per: str | None,
    config: str | None,
    no_config: bool,
    list_presets: bool,
    exclude: tuple[str, ...],
    deep: bool,
    kernels: bool,
    output: str | None,
    stages: bool,
    kpack: bool,
    device: tuple[str, ...],
    newer_loader: bool,
    kpack_path: tuple[str, ...],
    as_json: bool,
    schema: bool,
    verbose: int,
) -> int:
    """Hold files against a policy, compare the stages of one unit, or check an installation with kpack archives.

    A policy: PATHs are files, folders, packages (wheels, …), URLs and patterns. With --require every unit of device
    code must serve each device: an sm_80 cubin serves 8.6, sm_100a serves 10.0 only. A unit is what a runtime chooses
    one image from: a fat binary, a bundle, the loose images of a folder. +ptx asks for PTX that later devices compile;
    a name with a or f, as sm_90a, asks also for an image of exactly that name. What cannot be read fails the check, and
    so does a PATH without device code of which --require, --uniform or --metadata asks something. What containers
    state of compressed images is believed; fatpack doctor inflates them all. The table [tool.fatpack.check] of the
    nearest pyproject.toml has the same options by the same names; those of the command line come before it.

    With --stages, or with several files and no policy: they are of one unit at several stages: CIR or bitcode, device
    images, containers of them, objects, programs. What a file is, its bytes tell. Whatever a later stage lost of an
    earlier one is reported: kernels, architectures, registration. Several files of one stage (the cubins of all
    architectures) count as one.

    With --kpack: the programs and libraries of a folder such as site-packages, whose device code was moved to kpack
    archives, find all of it there, on every device, and it is for that device by its own header. Links are not
    followed. Nothing outside of the folder is read, but for --kpack-path. A device named without a feature stands for
    both of its settings. The variables ROCM_KPACK_PATH, ROCM_KPACK_PATH_PREFIX and ROCM_KPACK_DISABLE are not read;
    that they are set is said.

    The exit code is 0 if all is well, 1 if something is missing or breaks the policy, 3 if something cannot be read.
    """
    if schema:
        from fatpack.report.schemas import text

        sys.stdout.write(text("check"))
        return FINE
    if list_presets:
        return _presets(config, read=not no_config)
    asked = {
        "require": require,
        "forbid": forbid,
        "max-size": max_size,
        "max-growth": max_growth,
        "against": against,
        "uniform": uniform,
        "registered": registered,
        "metadata": metadata,
        "per": per,
        "exclude": exclude,
    }
    given = {name: value for name, value in asked.items() if value}
    others = [*(["config"] if config else []), *(["output"] if output else [])]
    if (kpack or stages) and (given or others):
        form = "--kpack" if kpack else "--stages"
        raise UsageError(f"--{next(iter((*given, *others)))} is for policies, and does not go with {form}")
    if not kpack and (device or newer_loader or kpack_path):
        raise UsageError("--device, --newer-loader and --kpack-path go with --kpack")
    if kpack or stages:
        return _fits(paths, (device, newer_loader, kpack_path) if kpack else None, as_json=as_json, verbose=verbose)
    from fatpack.cli.answering import policies

    policy = policies.policy(given, config, no_config=no_config, deep=deep, names_kernels=kernels)
    if policy is not None:
        return policies.run(paths, policy, "json" if as_json else output or "text", verbose=verbose)
    if others or len(paths) < 2 or any(map(os.path.isdir, paths)):
        raise _nothing_asked(paths)
    return _fits(paths, None, as_json=as_json, verbose=verbose)


def _nothing_asked(paths: tuple[str, ...]) -> UsageError:
    if not paths:
        return UsageError("no file is given", hint="fatpack check PATH --require sm_80,sm_90+ptx; --help shows all")
    name = os.path.basename(paths[0].rstrip("/")) or paths[0]
    return UsageError(
        f"nothing says what {name} is to be checked for",
        hint=f"fatpack check {name} --require sm_80,sm_90+ptx (or --uniform, --registered, --metadata, --max-size); "
        f"fatpack inspect --by arch {name} shows what it has; files of one unit at several stages: fatpack check k.cir "
        f"k.fatbin k.o; an installation: fatpack check --kpack FOLDER",
    )


def _presets(config: str | None, *, read: bool) -> int:
    """Print the presets of the project and those that fatpack brings."""
    from fatpack.answers.policy import config as configs
    from fatpack.report.text import columns

    own = configs.named(config) if config else configs.nearest() if read else None
    rows = [[f"@{name}", ", ".join(value), own.path] for name, value in own.presets.items()] if own else []
    rows += [[f"@{each.name}", each.require, f"{each.what}: {each.source}"] for each in configs.brought()]
    write_lines(columns(rows), sys.stdout)
    return FINE


def _fits(
    paths: tuple[str, ...], kpack: tuple[tuple[str, ...], bool, tuple[str, ...]] | None, *, as_json: bool, verbose: int
) -> int:
    """Compare the stages of a unit, or look for the kpack archives of programs, and return the exit code."""
    try:
        document = _stages(paths) if kpack is None else _installed(paths, *kpack)
    except UsageError:
        raise
    except (FatpackError, OSError) as error:
        if not as_json:
            raise
        problem = {"message": message(error), "exit_code": exit_code(error)}
        _print_json({"schema": SCHEMA, "findings": [], "error": problem}, exit_code(error))
        return exit_code(error)
    code = code_of((item["severity"], item["code"]) for item in document["findings"])
    code = worst((code, code_of((item["severity"], item["code"]) for item in document.get("unlisted_findings", ()))))
    if as_json:
        _print_json(document, code)
        return code
    if kpack is not None:
        from fatpack.report.answers.kpack import render
    else:
        from fatpack.report.answers.stages import render
    write_lines(render(document, verbose=verbose), sys.stdout)
    return code


def _print_json(document: dict[str, Any], code: int) -> None:
    from fatpack.report.json_text import json_pieces

    sys.stdout.writelines(json_pieces({**document, "exit_code": code}))
    sys.stdout.write("\n")


def _installed(
    folders: tuple[str, ...], device: tuple[str, ...], newer_loader: bool, kpack_path: tuple[str, ...]
) -> dict[str, Any]:
    """Return the document of a folder in which programs look for kpack archives."""
    if len(folders) != 1:
        raise UsageError(f"{len(folders)} folders given, one was expected", hint="fatpack check --kpack FOLDER")
    from fatpack.answers.kpack.check import Settings, check
    from fatpack.report.answers.kpack import record

    checked = check(folders[0], Settings(device, newer_loader, kpack_path))
    return record(checked, [name for name in VARIABLES if os.environ.get(name)])


def _stages(files: tuple[str, ...]) -> dict[str, Any]:
    """Return the document of the files of one unit."""
    if len(files) < 2:
        raise UsageError(
            f"{counted(len(files), 'file')} given, several of one unit were expected",
            hint="fatpack check k.cir k.fatbin k.o",
        )
    from fatpack.answers.stages.check import check
    from fatpack.report.answers.stages import record

    return record(check(files))
