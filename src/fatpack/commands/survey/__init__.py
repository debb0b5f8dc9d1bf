"""Survey: the rows of many files, read on all cores of a machine or on many machines, into one folder of tables.

::

    sources ──► plan ──► engine: one task per file ──► rows of one file ──► parts ──► folder
                 ▲        local, dask, ray                                    │
                 └──────────────────── manifest: what is done ◄───────────────┘

The driver alone writes, so that workers need no folder in common but the one they read, and a worker that is lost
leaves nothing behind. A part is in the folder when the manifest names it: whatever is killed, every file has its rows
once.

==============  ===================================================================================
``sources``     what users name to files: folders, patterns, lists
``task``        what a worker does: one file to its rows, as bytes that are ready to be written
``parts``       the files of the folder: written, and rewritten without what has changed
``manifest``    what is done and what is to do, in a database beside the parts
``driver``      all of it together
``engines/``    where tasks run
==============  ===================================================================================
"""
