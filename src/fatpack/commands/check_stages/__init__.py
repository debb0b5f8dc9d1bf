"""The command ``check-stages``: kernels, architectures and registration that a later build stage lost."""
