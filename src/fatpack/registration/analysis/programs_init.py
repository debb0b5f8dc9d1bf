"""The evidence of linked programs and libraries: what they import, define and hold, and what their code calls.

==============  ======================================================================================================
``elf``         what names and tables of an ELF program say without its code; ``verdicts`` what follows from that
``code/``       the calls of a runtime's functions in code, and what they are called with
``elf_code``    ELF programs whose code can be read, and ``pe_code`` PE programs; ``unwinding`` where functions start
``by_shape``    the functions of a runtime that has no names, by how they are called
``reading``     all of it: the door
==============  ======================================================================================================

How we know: programs of clang 22 and nvcc 13, whole and with one thing broken, stripped and not; published libraries of
20 to 1000 megabytes.
"""

from __future__ import annotations
