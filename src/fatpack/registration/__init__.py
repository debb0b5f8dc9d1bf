"""Registration of device code: records of CUDA, HIP, SYCL and OpenMP, and the code that registers them at start-up.

Records in a program point to its containers. They show facts that containers lack: the end of an image without a
header, and whether the runtime will find everything in the file. The modules here follow these pointers, through
relocations where a linker has not filled them in.

=========================  ===========================================================================================
``combine_sections``       containers spread over several sections; called by the scanner
``records``                records of CUDA (``.nvFatBinSegment``) and HIP (``.hipFatBinSegment``), and their containers
``kpack_marker``           markers in the place of HIP's records if bundles were moved to kpack archives
``stripped_programs``      programs without sections, ``__nv_module_id``, and the words that point to containers
``sycl_images``            ``.tgtimg`` and the records of SYCL's images
``sycl_containers``        containers of SYCL programs, from their sections and records
``analysis``               launches and registrations by calls, constructors, and findings about missing registrations
=========================  ===========================================================================================
"""

from __future__ import annotations

#: key of the containers without device images, beside the names of formats, in the containers compared with records
EMPTY = ""
