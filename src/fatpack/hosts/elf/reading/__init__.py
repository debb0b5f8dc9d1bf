"""Reading an ELF file: layouts, tables, segments, sites of device code, the label of every byte."""
