"""Completion on TAB: what shells ask, what the grammar and the file that was typed answer."""
