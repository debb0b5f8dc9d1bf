"""Wheels with slimmed libraries: ``RECORD``, metadata and names say what is in them, all else keeps its stored bytes.

::

    wheel ─► files, compared with RECORD ─► change(library) ─► deflated ─► RECORD, METADATA, WHEEL, names ─► pieces

How we know: PEP 427 and its successor, the specification of the binary distribution format
(packaging.python.org, revision of 2025), for names, RECORD and WHEEL; PEP 440 for local versions; PEP 770 for SBOMs.
"""
