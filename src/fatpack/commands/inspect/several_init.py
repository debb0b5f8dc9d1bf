"""What the records of several files say together: what they add up to, and whether they are built alike."""
