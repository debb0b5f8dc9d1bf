"""Taking loaded device code out of PE images: what may go, what moves in the file, and where pointers are held."""
