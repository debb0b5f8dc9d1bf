"""ELF tables, read once for all: what hosts, images, tables of symbols and runtimes need of ELF files.

``layout`` and ``constants`` say what is stored. ``header`` is the quick look at the thousands of images of a library,
``symbols`` and ``sections`` are what facts about kernels come from, ``file`` is a whole file with every check, for
hosts. All of them take tables by ``table``.
"""
