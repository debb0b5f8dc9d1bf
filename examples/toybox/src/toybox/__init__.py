"""An example of a plug-in: the container ``toybox``, and the host ``toychest`` that carries containers."""
