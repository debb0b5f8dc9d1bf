"""MLIR bytecode, the parts that a container needs: modules, their attributes, and operations by name.

::

    ML\\xefR, version, producer and NUL, then sections: id, size, [alignment, 0xCB…], data
    0 strings   1 dialects and names of operations   2 attributes and types   3 their offsets   4 IR
    5 resources   6 their keys   7 dialect versions   8 properties

Operations of all dialects have the same encoding, so all of them can be counted. Only a dialect can decode the
properties of its registered operations: symbols are found for ``builtin.module`` and unregistered operations.

How we know: ``mlir/docs/BytecodeFormat.md`` and ``mlir/lib/Bytecode``, LLVM 22, and files that mlir-opt 22 wrote with
``--emit-bytecode-version=0`` to ``6``, of which every byte was accounted for.
"""
