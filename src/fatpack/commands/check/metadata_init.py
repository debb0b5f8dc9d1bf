"""What packages declare of their device code, against what is in it.

::

    rows of packages ─► places: the files that declare, found and opened
                              └─► variant, extras, classifiers (wheels), conda, debian: bytes ─► Declaration
                                                      └─► compare: claims against units ─► Violations

A declaration is for devices: each must be served by something in the package, by the rules of their runtimes.
``--require`` asks for more, of every unit.
"""
