"""``fatpack slim``: images that no device needs go out of files; the others may be compressed anew.

::

    options ─┐
    file ────┴─► choose: the images that stay, container by container
                    └─► smaller containers (fatpack.edit.write_containers)
                           ├─► objects, archives, containers: fatpack.edit.selection
                           └─► linked files: laid out again ─► a shrinker of fatpack.binary ─► pieces

    wheel, conda package, folder ─► members ─► each as a file ─► RECORD, paths.json, names ─► pieces

===================  =================================================================================
``command``          the command line; it makes a request
``request``          the request, its checks, and the function of the library
``options``          devices, patterns, PTX, mode, names of packages, and outcomes
``policy``           ``[tool.fatpack.slim]``, and plans that are written, reviewed and applied
``run``              files, folders and packages of a request, one after the other; proofs of them
``choose``           the images that stay and go in every container of a file, and refusals
``keep_for_device``  the images of one container that a device takes, or may take
``used``             containers that stay or go by use, and what fails then
``budget``           the steps by which a file gets as small as asked
``plan``             ``plan_slim(view, options)``: the plan for one file
``linked``           linked files: containers laid out again, and the words that point to them
``remove``           images that a selector selects, removed from any file
``result``           the facts of a slimmed file, by digests, and the check of what was written
``packages``         ``slim_package(view, path, slimming, naming, stack)``, for all kinds of packages
``wheels``           wheels: RECORD, METADATA, WHEEL and names in step
``conda``            conda packages: ``paths.json``, ``index.json`` and names in step
``folders``          folders: a copy of everything, or each library in its place
``whole_files``      files of AMD's kernel stores, which go as a whole
``store_files``      which of these go, once all files of a folder or wheel were looked at
``environment``      environments: libraries in their place, with a journal, and the way back
``wheelhouse``       folders of wheels, chosen by a lock, with an index and a new lock
``installed``        the packages of an environment, and their files with digests of others
``certificate``      the proof of a result as data and as text
``text``             the text and the JSON of results
===================  =================================================================================
"""

from __future__ import annotations

from fatpack.errors import FatpackError
from fatpack.exit_codes import FINDINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.slim.keep_for_device import UnsupportedContainer


class SlimRefused(FatpackError):
    """Slimming would empty some ``containers``, or take the code of a device that they serve."""

    exit_code = FINDINGS

    def __init__(
        self, problem: str, containers: Sequence[UnsupportedContainer], *, hint: str, chain: Sequence[str] = ()
    ) -> None:
        super().__init__(problem, hint=hint, chain=chain)
        self.containers = tuple(containers)
