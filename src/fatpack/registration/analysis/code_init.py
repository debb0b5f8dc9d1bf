"""What the code of programs calls, and with which constants: found, read, and followed where that is not enough.

===============  =====================================================================================================
``program``      a program whose code can be read, whatever file it is
``search``       where code names some addresses, found without decoding it
``sites``        the calls of a runtime's functions, and what they are called with: the door
``x86_runs``     the instructions right before a call of x86-64, by a regular expression
``x86``, ``a64`` functions followed from their start; ``state`` what is held on the way
===============  =====================================================================================================
"""

from __future__ import annotations
