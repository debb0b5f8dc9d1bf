"""The evidence of linked programs and libraries: what they import, define and hold, and what their code calls.

================  ====================================================================================================
``elf``           what names and tables of an ELF program say without its code; ``verdicts`` what follows from that
``program``       a program whose code can be followed; ``elf_code`` and ``pe_code`` those of both files
``unwinding``     where functions start, whole or stripped
``search``        where code names some addresses, found without decoding it
``sites``         the calls of a runtime's functions, and what they are called with
``x86_runs``      the instructions right before a call of x86-64, by a regular expression
``x86``, ``a64``  functions followed from their start; ``state`` what is held on the way
``by_shape``      the functions of a runtime that has no names, by how they are called
``reading``       all of it: the door
================  ====================================================================================================

How we know: programs of clang 22 and nvcc 13, whole and with one thing broken, stripped and not; published libraries of
20 to 1000 megabytes.
"""

from __future__ import annotations
