"""Fuzzing: broken files made of real ones, and what must hold for each of them (``docs/testing.md``)."""
