"""What the runtimes of some devices load of files: rules accept or reject images, and what mends it where none fits."""
