"""Linked programs and libraries slimmed: their containers laid down again, and the words that lead to them."""

from __future__ import annotations
