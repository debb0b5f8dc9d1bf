"""What a release promises, and the steps to it."""
