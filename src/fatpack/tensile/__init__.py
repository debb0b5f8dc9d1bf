"""Libraries of Tensile (rocBLAS, hipBLASLt, hipSPARSELt): what their tables name, against the files beside them.

::

    library/TensileLibrary_lazy_gfx942.dat           the parent: a tree whose leaves name tables, without extension
    library/TensileLibrary_Type_HH_…_gfx942.dat      a table that the parent names
    library/TensileLibrary_Type_HH_…_gfx942.co       the code of its kernels
    library/Kernels.so-000-gfx942.hsaco              helper kernels, which lazy loading opens first

The library chooses the parent by the device, the table by the problem, and opens the code when it is needed: a missing
file shows when a program asks for it. :mod:`~fatpack.tensile.tables` reads what a parent names,
:mod:`~fatpack.tensile.library` compares that with the files that a command met.

How we know: ROCm/rocBLAS ``library/src/tensile_host.cpp``; Tensile ``PlaceholderLibrary.hpp`` (four versions),
``Serialization/PlaceholderLibrary.hpp``, ``hip/HipSolutionAdapter.cpp``, ``SolutionLibrary.py``; hipBLASLt's
``check_dat_integrity``.
"""
