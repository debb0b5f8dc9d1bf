"""The sections of the page, one module each: an overview in, an element out; None where there is nothing to show."""
