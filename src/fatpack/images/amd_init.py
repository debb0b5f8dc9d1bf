"""Code objects for AMD processors: what they are for, their kernels and metadata."""
