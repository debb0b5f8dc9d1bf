"""What `fatpack pack` and `fatpack convert` do, and the options that say how containers are made."""
