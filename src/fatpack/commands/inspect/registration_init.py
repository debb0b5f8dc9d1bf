"""What host files launch and register, as records and as text: ``inspect --runtime``."""
