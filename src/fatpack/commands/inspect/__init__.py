"""What commands do with folders, patterns and packages: the same as with each file in them, and a summary."""

from __future__ import annotations
