"""Whether the programs of a folder find their device code in the kpack archives there."""
