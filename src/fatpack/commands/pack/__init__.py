"""``fatpack pack``: the formats that are packed, their options, and the command; ``convert`` shares the options."""

from __future__ import annotations
