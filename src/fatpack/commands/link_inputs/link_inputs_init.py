"""Which files are linked for which target, as records and as text: `link-inputs`."""
