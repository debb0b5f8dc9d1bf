"""Trees: what names mean. Files, folders, patterns and packages, down to the files in which device code may be.

::

    names ──► walk ──► places ──► nodes ──► leaves: files, also those in packages, open until the next is asked for
"""
