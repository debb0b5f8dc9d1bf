"""``fatpack normalize``: builds of one source made equal where a field is free, as times and temporary names are."""
