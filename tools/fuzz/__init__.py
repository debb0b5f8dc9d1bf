"""Fuzzing: broken files made of real ones, and the rules that must hold for each of them (``docs/testing.md``)."""
