"""What `fatpack pack` and `fatpack convert` do, and the options that say how containers are made."""

from __future__ import annotations
