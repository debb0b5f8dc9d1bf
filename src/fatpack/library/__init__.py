"""The library's front door: what the command line does, for Python.

Every function takes a path, bytes or a binary file; that choice is made here and nowhere else. The public names are
those of ``fatpack``, which imports a module of this room when one of its names is first used.
"""
