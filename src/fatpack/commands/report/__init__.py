"""Overview of files: bytes by library, architecture and kernel, coverage of devices, and duplicates.

::

    rows of files, images and kernels ──► collecting ──► Overview ──► pages, pictures and texts of `fatpack report`
"""

from __future__ import annotations
