"""Wheels, conda packages and environments: the files that describe them, read and rewritten."""
