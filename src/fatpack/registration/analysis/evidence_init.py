"""What a host file shows of launching and registering kernels, read without running it.

A kernel that nothing registers fails when the program runs, long after compiler and linker were content. Here is what
a file shows of both sides: the functions of the runtimes that it calls, from where, with which constants.

=================  ===================================================================================================
``functions``      the functions of the runtimes that matter, and which argument is what
``memory``         a host file as it lies in memory: sections, symbols, functions, addresses
``symbol_tables``  the symbol tables of ELF files, with the names that they lead to
``wrappers``       the records that lead to containers; ``entries`` the tables of offload entries, in all layouts
``descriptors``    what the runtimes of OpenMP and SYCL are given, found by its shape
``records/``       all these records as tables, and what each of their bytes is
``facts``          all that a file shows, as records
``objects/``       what objects register and launch, and which constructors lead there: from relocations
``programs/``      what linked programs import, define and call, from names, tables and code
``verdicts``       what follows from the facts: what is missing, how sure that is, and what to do; ``described`` the
                   same for OpenMP and SYCL
``units``          what a file registers, in numbers; ``strings`` the names of kernels that stand in its data
``judging``        the door for those who scan
=================  ===================================================================================================

How we know: objects and programs of clang 22 and nvcc 13 for CUDA and HIP, whole and with one thing broken; the
functions' arguments are those of CUDA's ``crt/host_runtime.h``, of clang/lib/CodeGen/CGCUDANV.cpp and of
llvm/lib/Frontend/Offloading/OffloadWrapper.cpp (LLVM 22.1).
"""

from __future__ import annotations
