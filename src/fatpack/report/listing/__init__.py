"""What is kept of a file of which no more than the text is wanted: its containers by place, a row for each image."""
