"""Cubins and PTX: what they are for and their kernels."""
