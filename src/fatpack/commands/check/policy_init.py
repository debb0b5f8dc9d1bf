"""A policy over files, folders, packages and sources of all kinds: what must be in them, and what must not.

::

    requirements ─┐
    presets ──────┼─► check: units of rows ─► coverage, uniform, limits, registered, metadata ─► outcome.Checked
    config ───────┘
"""
