"""Runtime: what a program hands to its offload runtime when it starts, read without running it.

Device code reaches a runtime through records that lie in sections of their own: pointers to containers, and sizes. They
tell what containers cannot: where one image of several ends that have no header, and whether everything that is there
will be found. This room follows their pointers, through relocations where a linker has not filled them in.

===========================  =========================================================================================
``sections``                 the door: what sections of a host make together
``fat_object``               the container that an object with one section per target is
``assembled``                such a container, and where it lies
``pointers/``                what a pointer in an object or a program leads to: relocations of ELF objects and programs,
                             addresses of PE images, relocations of COFF objects
``registration/records``     the records by which CUDA and HIP register containers, of one shape for both
``registration/hip``         those of ``.hipFatBinSegment``, compared with the bundles that were found
``registration/kpack``       the markers in the place of such records whose bundles were moved to kpack archives
``registration/cuda``        those of ``.nvFatBinSegment``, compared with the fat binaries found, and followed to others
``registration/module_id``   what ``__nv_module_id`` calls the units of CUDA code
``…/without_sections``       the records of both models in programs without sections
``sycl/image_table``         the (address, size) pairs of ``.tgtimg``, which say where SYCL's images are
``sycl/image_record``        the records that register SYCL's images, which say what they are for
``sycl/containers``          the containers of a SYCL program, made of its sections and what these say
``evidence/``                what host files launch and register by calls, whether a constructor leads there, and
                             what is missing
===========================  =========================================================================================

Hosts say where bytes lie, formats what they are; here are the rules of programs that need both. The scanner asks.
"""

from __future__ import annotations
