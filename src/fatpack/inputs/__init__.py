"""Find the input files of a command: in folders, patterns and packages, down to the files that may have device code.

::

    names ──► TreeWalk ──► TreeFile ──► PendingFile ──► InputFile, also in packages, open until the next is taken
"""
