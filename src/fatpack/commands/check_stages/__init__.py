"""What a later stage of one unit's pipeline lost of what an earlier one has: kernels, architectures, registration."""
