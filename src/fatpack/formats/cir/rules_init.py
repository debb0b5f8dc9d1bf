"""What is wrong with a CIR file: the verifier's rules of containers, and markers outside of containers."""
