"""TODO: tools/amd."""
