"""Stand-ins for tools of AMD's ROCm: one module per tool, and what they share."""

from __future__ import annotations
