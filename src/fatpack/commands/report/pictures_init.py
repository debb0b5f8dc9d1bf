"""Pictures of device code as SVG: a treemap of bytes, the coverage of kernels, the bytes of a file."""
