"""TODO: commands/extract."""
