"""What commands take: declared once, parsed with or without click, and told as help."""
