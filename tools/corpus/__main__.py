"""Compare fatpack with public files: ``python -m tools.corpus [OPTIONS] [KEY...]``.

Without keys everything is fetched and compared, which is several gigabytes; ``--max-mb 30`` takes the small ones, and
the key ``small`` means the files built here. Artefacts are pinned by sha256 and kept in the cache; they are fetched
with ``pip download`` and ``apt-get download`` in the machine's own configuration (see ``fetch``). One line per file and
a summary are printed; the exit code is 1 if a number differs or a file is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tools.corpus.catalogue import CatalogueError, load
from tools.corpus.compare import Comparison, compare
from tools.corpus.fetch import Fetcher, FetchError
from tools.corpus.small import NotBuilt, build

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.corpus.catalogue import Artefact, Catalogue, SmallFile

CACHE = Path(__file__).resolve().parents[2] / ".corpus"


class Tally:
    """Counts the results, and prints each at once."""

    def __init__(self) -> None:
        self.fine = self.different = self.compared = self.varied = 0
        self.unanswered: Counter[str] = Counter()
        self.missing: list[str] = []

    def add(self, key: str, outcome: Comparison) -> None:
        """Count and print one comparison."""
        self.compared += outcome.compared
        self.varied += len(outcome.varied)
        self.unanswered += outcome.unanswered
        words = f"{outcome.compared} compared"
        if outcome.varied:
            words += f", {len(outcome.varied)} vary with the build"
        if outcome.unanswered:
            words += f"; unanswered: {', '.join(sorted(outcome.unanswered))}"
        if outcome.differences:
            self.different += 1
        else:
            self.fine += 1
        print(f"{'DIFFERS' if outcome.differences else 'ok':8}{key:34}{words}", flush=True)
        for difference in outcome.differences:
            print(f"{'':8}{difference}")

    def miss(self, key: str, reason: str) -> None:
        """Count and print an artefact that is missing."""
        self.missing.append(key)
        print(f"{'MISSING':8}{key:34}{reason}", flush=True)

    def lines(self) -> Iterator[str]:
        """Yield the summary."""
        yield f"{self.fine} files agree, {self.different} differ, {len(self.missing)} missing"
        yield f"{self.compared} numbers compared, {self.varied} of them vary with the build and did"
        if self.unanswered:
            named = ", ".join(f"{name} {count}" for name, count in sorted(self.unanswered.items()))
            yield f"not answered yet, by part and number of files: {named}"
        if self.missing:
            yield f"missing: {', '.join(self.missing)}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.corpus", description="Compare fatpack with real files.")
    parser.add_argument("keys", nargs="*", metavar="KEY", help="artefacts, or `small`; default: everything")
    parser.add_argument("--list", action="store_true", help="list keys, sizes and sources, and stop")
    parser.add_argument("--max-mb", type=float, metavar="N", help="skip artefacts of more than N million bytes")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="default: .corpus in the repository")
    parser.add_argument("--fetch-only", action="store_true", help="fetch and verify, without comparison")
    parser.add_argument("--keep-downloads", action="store_true", help="keep wheels and packages in the cache")
    options = parser.parse_args(arguments)
    catalogue = load()
    try:
        artefacts, small = catalogue.select(options.keys, options.max_mb)
    except CatalogueError as error:
        parser.error(str(error))
    if options.list:
        print_list(artefacts, small)
        return 0
    tally = Tally()
    check_artefacts(artefacts, catalogue, options, tally)
    if small and not options.fetch_only:
        check_small(small, options.cache, tally)
    print(*tally.lines(), sep="\n")
    return 1 if tally.different or tally.missing else 0


def print_list(artefacts: Sequence[Artefact], small: Sequence[SmallFile]) -> None:
    for item in artefacts:
        size, source = f"{item.size / 1e6:.2f} MB", f"{item.source} {item.package} {item.version}"
        print(f"{item.key:26}{size:>12}  {source:44}{item.what}")
    for file in small:
        print(f"{file.key:26}{'built here':>12}")


def check_artefacts(
    artefacts: Sequence[Artefact], catalogue: Catalogue, options: argparse.Namespace, tally: Tally
) -> None:
    suites = [(item.suite, item.component) for item in catalogue.artefacts.values() if item.source == "deb"]
    fetcher = Fetcher(options.cache, suites)
    left = Counter(item.download for item in artefacts)
    for item in artefacts:
        left[item.download] -= 1
        try:
            path = fetcher.fetch(item)
        except FetchError as error:
            tally.miss(item.key, str(error))
            continue
        finally:
            if not left[item.download] and not options.keep_downloads:
                fetcher.release(item)
        if options.fetch_only:
            print(f"{item.key}  {path}", flush=True)
        else:
            tally.add(item.key, compare(path, item.expected))


def check_small(files: Sequence[SmallFile], cache: Path, tally: Tally) -> None:
    try:
        folder = build(cache, [file.key for file in files])
    except NotBuilt as error:
        for file in files:
            tally.miss(file.key, str(error))
        return
    for file in files:
        tally.add(file.key, compare(folder / file.key, file.expected, file.varies))


if __name__ == "__main__":
    sys.exit(main())
