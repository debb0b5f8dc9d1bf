"""Device images to containers, a packer per format."""
