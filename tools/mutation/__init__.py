"""Mutation testing: how many small changes of meaning the tests notice. ``python -m tools.mutation --help``."""
