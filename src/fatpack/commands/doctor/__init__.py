"""The command ``doctor``: complete verification of files, with the reason for everything that cannot be verified.

::

    paths ──► diagnosing: leaves, shared out ──► examining: a file ──► containers, images, kernels ──► Notes
                 │                                   ├─► rewriting: byte maps, and the same bytes when written again
                 │                                   ├─► reach: whether 32-bit relocations still reach over device code
                 ├─► wheels: checksums and RECORD    └─► known: what a finding is known for, with its thread
                 └─► answers.kpack: folders          Notes of all files ──► Diagnosis
"""
