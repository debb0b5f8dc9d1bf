"""Trees: what names mean. Files, folders, patterns and packages, down to the files in which device code may be."""
