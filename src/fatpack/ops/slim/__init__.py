"""Slimming: images that nobody needs go out of files, linked ones too, and what stays may be compressed anew.

::

    Wishes ─┐
    file ───┴─► selection: which images stay, container by container
                   └─► smaller containers (ops.writing)
                          ├─► objects, archives, containers: ops.edit
                          └─► linked files: laid down again ─► hosts.relay ─► pieces

============  =======================================================================================
``wishes``     what is asked for: devices, patterns, PTX, mode
``serving``    which images of a container the runtime of a device would take, and may take
``selection``  the images that stay and go in every container of a file, and what speaks against it
``plan``       the door: ``plan(view, wishes) -> Plan``
============  =======================================================================================
"""

from __future__ import annotations
