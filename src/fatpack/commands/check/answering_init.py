"""What the commands that answer questions share with none of the others."""
