"""Model to bytes: entries and groups of a fat binary as fatbinary makes them."""
