"""Whether files are healthy: all that can be verified of them, and what cannot, with the reason.

::

    paths ──► diagnosing: leaves, shared out ──► examining: a file ──► containers, images, kernels ──► Notes
                 │                                   ├─► rewriting: byte maps, and the same bytes when written again
                 │                                   ├─► reach: whether 32-bit relocations still reach over device code
                 ├─► wheels: checksums and RECORD    └─► known: what a finding is known for, with its thread
                 └─► answers.kpack: folders          Notes of all files ──► Diagnosis
"""
