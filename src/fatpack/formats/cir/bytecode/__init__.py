"""MLIR bytecode as far as a container needs it: modules, their attributes, and operations by name.

::

    ML\\xefR, version, producer and NUL, then sections: id, size, [alignment, 0xCB…], data
    0 strings   1 dialects and names of operations   2 attributes and types   3 their offsets   4 IR
    5 resources   6 their keys   7 dialect versions   8 properties

Operations are encoded alike whatever their dialect, so that all of them can be counted. What is in the properties of a
registered operation only its dialect knows: symbols are found for ``builtin.module`` and unregistered operations.

How we know: ``mlir/docs/BytecodeFormat.md`` and ``mlir/lib/Bytecode``, LLVM 22, and files that mlir-opt 22 wrote with
``--emit-bytecode-version=0`` to ``6``, of which every byte was accounted for.
"""
