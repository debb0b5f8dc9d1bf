"""The page of `fatpack report`: one file that loads nothing, with pictures, tables, and a little script."""
