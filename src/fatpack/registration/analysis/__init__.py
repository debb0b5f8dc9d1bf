"""Launches and registrations of kernels in host files, read from relocations, tables and code without running it.

=================  ===================================================================================================
``analyze``        the interface: findings, evidence, counts and annotations of one host file
``model``          the evidence, as records, and the names of the runtimes' functions
``objects``        calls in relocatable objects, from their relocations
``programs``       calls in linked programs, by following their code (x86-64 with capstone)
``findings``       findings about the evidence
``counts``         numbers of registered kernels and variables
``descriptors``    descriptors of OpenMP and SYCL
``entries``        tables of offload entries
``labels``         annotations of records, field by field
``asked_kernels``  kernels that host code does more with than launch, for slimming by use
=================  ===================================================================================================

``elf_program`` and ``pe_program`` read memory, names and pointers of programs; ``x86``, ``aarch64``, ``registers`` and
``calls`` follow constants through code; ``references`` finds the code that refers to some addresses.
"""

from __future__ import annotations
