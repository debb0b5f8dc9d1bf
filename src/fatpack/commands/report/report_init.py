"""Results as records of plain data, and the texts made from them."""
