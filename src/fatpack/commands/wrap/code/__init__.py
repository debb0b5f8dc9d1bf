"""Machine code that registers images: listings for each processor, filled in, and how its functions unwind."""
