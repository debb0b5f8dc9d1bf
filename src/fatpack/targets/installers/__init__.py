"""Installers as models: the build of a release that each one takes for a machine, by what it believes of the machine.

========================  ============================================================================================
``variant_providers``     wheels with a variant label: what providers list for devices, and which label uv takes
``conda``                 builds of a conda package: ``__cuda_arch``, ``cuda-arch``, and which build has priority
``hugging_face``          folders of kernels: what the loader of Hugging Face believes from ``metadata.json``
========================  ============================================================================================

An installer reads what a package declares, never its code. Whether the code runs is a question for
:mod:`fatpack.targets.selection`, and where the two disagree is a finding of ``check --metadata``.
"""
