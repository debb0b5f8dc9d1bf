"""TODO: tools/nvidia."""
