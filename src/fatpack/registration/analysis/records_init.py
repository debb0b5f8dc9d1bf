"""The records by which programs register device code, field by field: their layouts, and what each byte is."""
