"""A program or a function for each selected image, and what it makes put back into the file or kept."""
