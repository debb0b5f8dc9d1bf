"""Words: what people read (text of files made harmless, sizes, names of C++) and the words that arguments take."""
