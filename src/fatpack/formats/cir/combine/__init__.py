"""Model to file: several modules written as one container, and a container split into its modules."""
