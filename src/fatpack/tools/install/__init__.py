"""Stand-ins in the place of their originals: made, taken away, and told apart from what else PATH finds."""
