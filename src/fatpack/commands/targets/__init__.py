"""TODO: commands/targets."""
