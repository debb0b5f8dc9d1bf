"""Runtime: what a program hands to its offload runtime when it starts, read without running it.

Device code reaches a runtime through records that lie in sections of their own: pointers to containers, and sizes. They
tell what containers cannot: where one image of several ends that have no header, and whether everything that is there
will be found. This room follows their pointers, through relocations where a linker has not filled them in.

=================  ==================================================================================================
``sections``       the door: what sections of a host make together
``pointer``        what a pointer in an object or a program leads to, whatever carries it
``elf_program``,   how the carriers resolve pointers: relocations of ELF objects and programs, addresses of PE images,
``pe_program``,    relocations of COFF objects
``coff_program``
``wrapper``        the records by which CUDA and HIP register containers, of one shape for both
``hip``            those of ``.hipFatBinSegment``, held against the bundles that were found
``cuda``           those of ``.nvFatBinSegment``, held against the fat binaries that were found, and followed to others
``segments``       those of both in programs without sections
``module_id``      what ``__nv_module_id`` calls the units of CUDA code
``image_table``    the (address, size) pairs of ``.tgtimg``, which say where SYCL's images are
``image_record``   the records that register SYCL's images, which say what they are for
``linked``         the containers of a SYCL program, made of its sections and what these say
``fat_object``     the container that an object with one section per target is
``assembled``      such a container, and where it lies
=================  ==================================================================================================

Hosts say where bytes lie, formats what they are; here are the rules of programs that need both. The scanner asks.
"""

from __future__ import annotations
