"""What ``fatpack slim`` does: wishes from options, files one after the other, and where the results go."""

from __future__ import annotations
