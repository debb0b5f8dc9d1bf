"""A program, or a function, for every selected image: what it makes of each, before any of it is put anywhere.

::

    images ──► jobs ──► a private folder: in, out ──► the program, several at once ──► made: bytes and what they are for
                                                                                        │
                                  files (``extract``'s way) ◄───────────────────────────┴──► back into the host
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from threading import Lock

from fatpack import images
from fatpack.concurrency.threads import ThreadTasks, core_count
from fatpack.edit.container_file import has_same_bytes
from fatpack.edit.extract import OutputFile, image_pieces
from fatpack.edit.replace_images import (
    ReplacementMetadata,
    image_as_file,
    plan_substitution,
    refuse_marker,
    replacement_image,
)
from fatpack.errors import CommandFailed, FormatError, UsageError, cli_or_api, pluralize
from fatpack.images.container_mismatch import arch_contradiction, image_words, mismatch_findings, triple_contradiction
from fatpack.io.open import open_source
from fatpack.io.output_names import image_name
from fatpack.io.temporary import PrivateFolder, size_or_problem, write_for_reading
from fatpack.limits import current_budget
from fatpack.model import arch_name
from fatpack.record import Record
from fatpack.selectors.no_match import NothingSelected
from fatpack.selectors.select import describe_image, with_positions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO, Self

    from fatpack.edit.replace_images import ImageSubstitution
    from fatpack.edit.selection import EditSelection
    from fatpack.images import ImageInfo
    from fatpack.io.source import View
    from fatpack.limits import Budget
    from fatpack.model import Finding, Image
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.selectors.select import Selector


# The command that is run for images: words in which ``{in}``, ``{arch}`` and so on are replaced for each image.
#
# Nothing is given to a shell, and an argument stays one argument. Values from a file go in only as plain words:
# the name of an architecture cannot become an option or a path.

#: name → its meaning, as the help says it
PLACEHOLDERS = {
    "in": "a file with the image",
    "out": "where the command writes its result",
    "arch": "the image's architecture",
    "processor": "the architecture without features",
    "triple": "its triple",
    "offload": "its offload model",
    "form": "what it is (ptx, bitcode, …)",
    "id": "its bundle ID",
    "container": "the number of its container",
    "index": "its number there",
}

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")

#: A word that no program takes for an option or for a path: what target IDs, triples and bundle IDs are made of.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+,=-]*\Z")


class CommandTemplate(Record):
    """A command with placeholders in it."""

    words: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The placeholders that it has."""
        return frozenset(match[1] for word in self.words for match in _PART.finditer(word) if match[1] is not None)

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """Return the arguments with values in the place of the placeholders."""
        return [_PART.sub(lambda match: _text(match, values), word) for word in self.words]


def _text(match: re.Match[str], values: Mapping[str, str]) -> str:
    return values[match[1]] if match[1] is not None else match[0][0]


def parse_template(words: Sequence[str], *, wants_output: bool) -> CommandTemplate:
    """Return a command as it was given; ``wants_output`` says that what it makes goes somewhere.

    Raises UsageError for an unknown placeholder, and for one that is missing or goes nowhere.
    """
    if not words or not words[0]:
        raise UsageError("there is no command", hint="write it after --, such as: -- ptxas -arch=sm_90 {in} -o {out}")
    for word in words:
        if "\0" in word:
            raise UsageError("an argument cannot contain a NUL character")
        for match in _PART.finditer(word):
            if match[0] in "{}" or (match[1] is not None and match[1] not in PLACEHOLDERS):
                raise UsageError(
                    f"{match[0]} in the argument {word!r} is no placeholder",
                    hint=f"they are {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}; write {{{{ for a brace",
                )
    made = CommandTemplate(tuple(words))
    if "in" not in made.names:
        raise UsageError("no argument of the command has {in}, the file with the image")
    if wants_output and "out" not in made.names:
        raise UsageError("no argument of the command has {out}, the file that it is to write")
    if not wants_output and "out" in made.names:
        hint = cli_or_api("--add, --replace and -d DIR say where", "fatpack.map_images(…, put=…) says where")
        raise UsageError("what the command writes to {out} goes nowhere", hint=hint)
    return made


def placeholder_values(position: str, image: FoundImage, names: frozenset[str]) -> dict[str, str]:
    """Return the values of the placeholders that describe an image; ``in`` and ``out`` are the caller's.

    Raises UsageError for a text of the file that is no plain word, or is not there.
    """
    container, _, index = position.rpartition("/")[2].partition(".")  # of an image in an image, the inner one
    target = image.target
    texts = {
        "arch": target.arch,
        "processor": target.processor,
        "triple": target.triple,
        "offload": target.offload,
        "form": image.form,
        "id": image.attrs.get("id", ""),
        "container": container,
        "index": index,
    }
    for name in names & texts.keys():
        if not texts[name]:
            raise UsageError(f"image {position} has no {name}", hint=f"leave out {{{name}}}, or select other images")
        if not _PLAIN.match(texts[name]):
            raise UsageError(
                f"the {name} of image {position} is no plain word, and no argument is made of it: {texts[name]!r}",
                hint=f"write the {name} itself in the place of {{{name}}}",
            )
    return texts


# Results put back in the place of their images, or next to them; or written to files.

#: formats whose entries are found by target alone, or by target and binary: two of one cannot be told apart
_BY_TARGET = ("clang-offload-bundle", "cir-offload-container", "rocm-kpack")


def plan_put_back(
    edit: EditSelection,
    made: Sequence[MappedImage],
    selector: Selector,
    *,
    is_beside: bool,
    accept_damage: bool = False,
    accept_mismatch: bool = False,
) -> ImageSubstitution:
    """Return the plan that puts what was made of images into their places, or after them in the same containers.

    Raises UsageError for what contradicts its target, for a target that is there already, and for bytes whose target is
    not known, unless ``accept_mismatch``; FormatError for damaged ones, unless ``accept_damage``.
    """
    changes: dict[int, tuple[Image, ...]] = {}
    changed = []
    for item in made:
        job = item.job
        assert item.data is not None
        refuse_marker(job.words, job.image, edit.whole.view)
        old = job.image.as_stored
        new = replacement_image(old, job.found.format, item.data, item.labels, is_beside=is_beside)
        is_other = (
            is_beside or new.target != old.target or not has_same_bytes(item.data, image_as_file(job.found, job.image))
        )
        if is_other:
            _check(item, new, accept_damage=accept_damage, accept_mismatch=accept_mismatch)
            changes[id(job.image)] = (old, new) if is_beside else (new,)
        what = image_words(item.recognised) if item.recognised.form else "bytes of no known form"
        place = "added beside it" if is_beside else "in its place" if is_other else "the same bytes"
        changed.append(f"{job.words}: {what}, {pluralize(len(item.data), 'byte')}, {place}")
    _refuse_twice(edit, made, changes, accept_mismatch=accept_mismatch)
    return plan_substitution(edit, changes, changed, selector)


def _how_to_accept(argument: str) -> str:
    return f"nothing was written; {cli_or_api('--force', f'{argument}=True')} takes it all the same"


def _check(item: MappedImage, new: Image, *, accept_damage: bool, accept_mismatch: bool) -> None:
    words, data = item.job.words, new.data
    is_unknown = not item.recognised.form and item.labels.arch is None and item.labels.triple is None
    if is_unknown and not accept_mismatch:
        given = cli_or_api("--set-arch or --set-triple", "ImageFile(…, triple=…, arch=…)")
        raise UsageError(f"{words}: the form and the target of the new image are unknown", hint=f"say it with {given}")
    for finding in mismatch_findings(new, item.recognised):
        is_cut = finding.code == "FP1104"
        if accept_damage if is_cut else accept_mismatch:
            continue
        hint = _how_to_accept("accept_damage" if is_cut else "accept_mismatch")
        raise UsageError(f"{words}: the new image: {finding.message}", hint=hint)
    if accept_damage:
        return
    try:
        images.kernels(data, item.recognised.form)
    except FormatError as error:
        hint = "; ".join(filter(None, (error.hint, _how_to_accept("accept_damage"))))
        raise FormatError(
            error.problem, offset=error.offset, field=error.field, hint=hint, chain=error.chain or data.chain
        ) from error


def _refuse_twice(
    edit: EditSelection, made: Sequence[MappedImage], changes: dict[int, tuple[Image, ...]], *, accept_mismatch: bool
) -> None:
    """Raise UsageError for two images of one target in a container, where there are more of them than before."""
    containers = {item.job.position.partition(".")[0]: item.job.found for item in made}
    for number, found in containers.items():
        if accept_mismatch and found.format not in _BY_TARGET:
            continue
        before = Counter(_key(found.format, image.as_stored) for image in found.images)
        rows = [new for image in found.images for new in changes.get(id(image), (image.as_stored,))]
        now = Counter(_key(found.format, image) for image in rows)
        for image in rows:
            key = _key(found.format, image)
            if now[key] > max(1, before[key]):
                name = image.target.spelling or image.target.canonical
                given = cli_or_api("--set-arch and --set-triple", "ImageFile(…, triple=…, arch=…)")
                raise UsageError(
                    f"{edit.titles[int(number)]}there would be {now[key]} images for {name} in one container",
                    hint=f"say what the new ones are for with {given}, or put them in the place of the old ones",
                    chain=edit.whole.view.chain,
                )


def _key(format: str, image: Image) -> tuple[str, ...]:
    target = image.target
    if format in _BY_TARGET:
        return (image.attrs.get("binary", ""), image.attrs.get("id", ""), target.triple, target.arch)
    return (target.triple, target.arch, target.offload, image.form)


def files_to_write(made: Sequence[MappedImage], source: str) -> list[OutputFile]:
    """Return what was made as files to write, named as ``extract`` names images: after target and position."""
    plan = []
    for item in made:
        assert item.data is not None
        target = item.labels.of(item.job.image.target)
        form = item.recognised.form
        name = image_name(
            item.job.found.member or source,
            target.triple,
            arch_name(target.arch, form),
            item.job.number,
            images.EXTENSIONS.get(form, "bin"),
        )
        what = image_words(item.recognised) if form else "bytes of no known form"
        plan.append(OutputFile(name, (item.data,), f"{item.job.words}: {what}", found=item.job.found))
    return plan


# Running other programs: several at once, each with what it said, and none of them left when this is stopped.

#: LIMIT: what is kept in memory of what a program says, its end; compilers can print without end
_KEPT = 64 << 10

#: seconds between SIGTERM and SIGKILL
_PATIENCE = 2.0


class ProcessOutput(Record):
    """The output of a program, on stdout and stderr together; ``dropped`` bytes before that are gone.

    All of it is in the file at ``path``, if it was to be kept.
    """

    text: str
    dropped: int = 0
    path: str = ""


class ProcessPool:
    """Programs that run; at the end of the block none does, and none starts any more."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            running = list(self._running)
        for process in running:
            _signal(process, signal.SIGTERM)
        for process in running:
            _end(process)

    def run(
        self, arguments: Sequence[str], words: str, keep: str = "", check: Callable[[int], object] = int
    ) -> ProcessOutput:
        """Run a program to its end and return what it said. There is no shell, and nothing to read on its stdin.

        ``words`` name the image that it is run for. All that it says is written to a new file at ``keep``, if there is
        such a path; ``check`` is called with the number of bytes, and raises if they are too many. Raises CommandFailed
        if it fails, ``OSError`` if it cannot be run.
        """
        if self._is_over:
            raise CommandFailed(f"{words}: {arguments[0]} was not run", words=words)
        # A group of its own: what the program starts in turn ends with it.
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
        )
        with self._lock:
            self._running.add(process)
            is_over = self._is_over
        try:
            if is_over:  # it was started while the others were ended: nothing else ends it
                raise CommandFailed(f"{words}: {arguments[0]} was ended at once", words=words)
            if keep:
                with open(keep, "xb") as sink:
                    said = _said(process.stdout, sink, check).replace(path=keep)
            else:
                said = _said(process.stdout)
            code = process.wait()
        except BaseException:
            _signal(process, signal.SIGTERM)
            _end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
            if process.stdout is not None:
                process.stdout.close()
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was ended by {_signal_name(-code)}"
            problem = f"{words}: {arguments[0]} {how}"
            raise CommandFailed(problem, words=words, returncode=code, output=said.text, dropped=said.dropped)
        return said


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a program that got SIGTERM, and kill it if it does not end."""
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if not hasattr(os, "killpg"):
        process.terminate()  # Windows: the program alone, at once; one that has ended is left
        return
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _said(
    stream: IO[bytes] | None, sink: IO[bytes] | None = None, check: Callable[[int], object] = int
) -> ProcessOutput:
    kept, dropped = b"", 0
    while stream is not None and (block := os.read(stream.fileno(), _KEPT)):
        kept += block
        if len(kept) > _KEPT:
            dropped += len(kept) - _KEPT
            kept = kept[-_KEPT:]
        if sink is not None:
            check(dropped + len(kept))
            sink.write(block)
    return ProcessOutput(kept.decode("utf-8", "replace"), dropped)


_NOTHING_SAID = ProcessOutput("")


class MapJob(Record):
    """An image that something is to be made of: the ``number`` among all of the file, and ``words`` for messages."""

    number: int
    position: str
    found: FoundContainer
    image: FoundImage
    words: str


class MappedImage(Record):
    """The result for an image: its bytes, if the command writes any, their form, and their target."""

    job: MapJob
    data: View | None
    labels: ReplacementMetadata
    recognised: images.ImageInfo
    said: ProcessOutput = _NOTHING_SAID


def list_jobs(
    rows: Sequence[tuple[str, FoundContainer, FoundImage]],
    items: Sequence[FoundContainer | Finding],
    selector: Selector,
    titles: Sequence[str],
    path: str,
) -> list[MapJob]:
    """Return a job for each selected image of the ``items`` of a file.

    Those for a host are meant only where the selector says so: by ``offload`` or ``id``, or by a position. Raises
    NothingSelected if no image is left.
    """
    is_said = bool(selector.offload or selector.id) or None not in (selector.container, selector.index)
    numbers = {position: number for number, (position, _, _) in enumerate(with_positions(items))}
    jobs = [
        MapJob(
            numbers[position],
            position,
            found,
            image,
            (titles[int(position.partition(".")[0])] if titles else "") + describe_image(position, image),
        )
        for position, found, image in rows
        if is_said or image.target.offload != "host"
    ]
    if not jobs:
        means = cli_or_api("--offload=host", 'Selector(offload="host")')
        raise NothingSelected("all images that match are for a host", hint=f"{means} means them", chain=(path,))
    return jobs


class MapRun:
    """The results for some jobs, one after the other in their order; several programs run at the same time.

    ``count`` of them, by default one for each core. ``labels`` are the triple and arch that the results are for, None
    for what they say themselves. They lie in a private folder until the end of the block, and can be read as long.
    Leaving the iteration early ends all programs.
    """

    def __init__(
        self,
        jobs: Sequence[MapJob],
        command: CommandTemplate,
        *,
        count: int | None = None,
        labels: tuple[str | None, str | None] = (None, None),
        budget: Budget | None = None,
    ) -> None:
        self._labels = labels
        self._jobs, self._command = jobs, command
        self._wants_output = "out" in command.names
        self._values = [placeholder_values(job.position, job.image, command.names) for job in jobs]
        self._count = min(count or core_count(), len(jobs))
        self._reading = Lock()
        self._budget = budget or current_budget()
        self._folder = PrivateFolder()
        self._programs = ProcessPool()

    def __enter__(self) -> MapRun:
        self._folder.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.__exit__()
        self._folder.__exit__()

    def __iter__(self) -> Iterator[MappedImage]:
        tasks: list[Callable[[], tuple[str, ProcessOutput]]] = [self._task(number) for number in range(len(self._jobs))]
        # The programs end first: threads wait for them.
        with ThreadTasks(tasks, threads=self._count) as results, self._programs:
            for job, (path, said) in zip(self._jobs, results, strict=True):
                yield self._made(job, path, said)

    def _task(self, number: int) -> Callable[[], tuple[str, ProcessOutput]]:
        return lambda: self._run(number)

    def _run(self, number: int) -> tuple[str, ProcessOutput]:
        """Run the command for an image; return the path of its output, "" for none, and what it said."""
        job = self._jobs[number]
        folder = self._folder.folder(str(number))
        extension = images.EXTENSIONS.get(job.image.form, "bin")
        given, result = os.path.join(folder, f"in.{extension}"), os.path.join(folder, "out")
        with self._reading:  # streams that are inflated are read by one thread at a time
            write_for_reading(given, image_pieces(job.found, job.image))
        arguments = self._command.filled({**self._values[number], "in": given, "out": result})
        try:
            if not self._wants_output:  # its output is the result, and may be larger than memory
                said_at = os.path.join(folder, "said")
                return "", self._programs.run(arguments, job.words, said_at, self._budget.check_output)
            said = self._programs.run(arguments, job.words)
            size = size_or_problem(result)
            if isinstance(size, str):
                problem = f"{job.words}: {arguments[0]} ended well, but {size}"
                raise CommandFailed(problem, words=job.words, output=said.text, dropped=said.dropped)
        except CommandFailed as error:
            error.hint = "nothing was written" if self._wants_output else ""
            raise
        finally:
            if os.path.lexists(given):
                os.unlink(given)
        self._budget.check_output(size)
        return result, said

    def _made(self, job: MapJob, path: str, said: ProcessOutput) -> MappedImage:
        if not path:
            return MappedImage(job, None, ReplacementMetadata(), images.UNKNOWN, said)
        data = open_source(path, name=job.words, may_close=True, budget=self._budget).view()
        triple, arch = self._labels
        return mapped_image(job, data, triple=triple, arch=arch, said=said)


def mapped_image(
    job: MapJob, data: View, *, triple: str | None = None, arch: str | None = None, said: ProcessOutput = _NOTHING_SAID
) -> MappedImage:
    """Return what was made of an image; where it does not say what it is for, ``triple`` and ``arch`` may."""
    recognised = images.identify_image(data)
    return MappedImage(job, data, replacement_labels(job.image, recognised, triple, arch), recognised, said)


def replacement_labels(
    old: FoundImage, recognised: ImageInfo, triple: str | None, arch: str | None
) -> ReplacementMetadata:
    """Return in what labels a new image differs from the one that it was made of.

    What is given holds, then what the image says of itself, unless its container said so, too: ``gfx90a`` serves what
    claims ``gfx90a:xnack+``, and ``sm_100f`` a cubin that claims sm_100.
    """
    target = old.target
    if triple is None and recognised.triple and (not target.triple or triple_contradiction(target.triple, recognised)):
        triple = recognised.triple
    if arch is None and recognised.arch and not _is_served(old, recognised, triple):
        arch = recognised.arch
    form = recognised.form if recognised.form and recognised.form != old.form else None
    return ReplacementMetadata(triple, arch, form)


def _is_served(old: FoundImage, recognised: ImageInfo, triple: str | None) -> bool:
    """Return whether the stored architecture of an image is right for another one that claims its own."""
    stored = old.target.arch
    if (
        not stored
        or stored == "generic"
        or triple is not None
        or arch_contradiction(stored, old.target.triple, recognised)
    ):
        return False
    if _processor(stored) == _processor(recognised.arch):
        return True
    # PTX may be stored for a higher architecture than it says: what was made of such an image, for the same.
    return recognised.form == "ptx" and images.identify_image(old.data).arch == recognised.arch


def _processor(arch: str) -> str:
    return arch.partition(":")[0].rstrip("f")
