"""Slimming: images that nobody needs go out of files, linked ones too, and what stays may be compressed anew.

::

    Wishes ─┐
    file ───┴─► choosing: which images stay, container by container
                   └─► smaller containers (ops.writing)
                          ├─► objects, archives, containers: ops.edit
                          └─► linked files: laid down again ─► hosts.shrinker(name).relay ─► pieces

    wheel, conda package, folder ─► members ─► each as a file ─► RECORD, paths.json, names ─► pieces

=================  ===================================================================================
``wishes``         what is asked for: devices, patterns, PTX, mode
``choosing``       the images that stay and go in every container of a file, what would be lost, what is refused
``recompression``  images that stay, compressed anew
``removal``        images that a selector names, taken out of any file
``plan``           the door for one file: ``plan(view, wishes) -> Plan``
``checking``       whether what was written holds what the plan says
``facts``          what a slimmed file holds, by digests
``outcome``        what became of a file, and the numbers of it
``members``        the files of a package that may hold device code, and what becomes of each
``naming``         how a package that changes is called
``packages``       the door for packages: ``slim_package(view, path, slimming, naming, stack)``
``folders``        the door for folders: a copy of everything, or each library in its place
``linked``         linked files: containers laid down again, and the words that lead to them
``wheels``         wheels: RECORD, METADATA, WHEEL and names in step
``conda``          conda packages: ``paths.json``, ``index.json`` and names in step
=================  ===================================================================================
"""

from __future__ import annotations
