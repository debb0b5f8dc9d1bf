"""Conda packages with slimmed libraries: ``paths.json`` says what is in them, ``index.json`` and names say which build.

::

    .conda     ─► zip ─► pkg-*.tar.zst ─► change(library) ─► tar ─► zstd ─┐
                  zip ─► info-*.tar.zst ─► paths.json, index.json ────────┴─► pieces
    .tar.bz2   ─► both in one tar

How we know: CEP 26 (names), CEP 34 (contents of conda packages: ``info/paths.json``, ``info/index.json``), CEP 35
(``.conda``: a zip archive of stored files), all of conda/ceps.
"""
