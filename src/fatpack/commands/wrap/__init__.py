"""Objects that register device images when they are linked, made without a compiler."""
