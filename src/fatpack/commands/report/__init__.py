"""What is in files, summed and compared: bytes by library, architecture and kernel, coverage, what is there twice.

::

    rows of files, images and kernels ──► collecting ──► Overview ──► pages, pictures and texts of `fatpack report`
"""

from __future__ import annotations
