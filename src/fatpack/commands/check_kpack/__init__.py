"""The command ``check-kpack``: checks that programs find their device code in the kpack archives beside them."""
