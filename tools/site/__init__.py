"""The site of the documents."""
