"""The words of CIR containers: attribute and operation names, and the forms that files have had.

==================  ====================================================  =========================================
form                 what marks the container                              what marks the host and the devices
==================  ====================================================  =========================================
``attribute``        ``module attributes {cir.offload.container}``         ``#cir.offload<host>``
``op``               the operation ``cir.offload.container { … }``          ``#cir.offload_kind<host>``
``op-string``        the same                                              ``"host"``, or only the names of modules
``nested``           ``attribute`` inside another module                   as above
``prototype``        ``cir.gpu.bundle = {device = @device, host = @host}``  ``cir.gpu.kind = "host"``
``offload-module``   operations ``cir.offload.module`` or ``gpu.module``    ``target = "gfx90a"``; no container at all
==================  ====================================================  =========================================

Sources: ``attribute`` is what was merged upstream (llvm-project#206576) and what cir-offload-merge writes in 2026;
the others are what the tools of its forks wrote before.
"""

from __future__ import annotations

from fatpack.record import Record

CIR_FORMAT = "cir-offload-container"

MODULE_NAMES = frozenset((b"module", b"builtin.module"))
CONTAINER = b"cir.offload.container"
KIND = b"cir.offload.kind"
BUNDLE_ID = b"cir.offload.bundle_id"
TRIPLE = b"cir.triple"
LANGUAGE_OPTIONS = b"cir.lowering_lang_options"
RECORD_LAYOUTS = b"cir.record_layouts"

#: The first prototype's marker, what came with it, and its kinds.
PROTOTYPE = b"cir.gpu.bundle"
PROTOTYPE_MAP = b"cir.gpu.kernel_map"
PROTOTYPE_KIND = b"cir.gpu.kind"

#: The roles of modules, in the order of a container.
ROLES = ("host", "device")

#: The attribute of a host module that holds its GPU binary, and the globals that lowering makes of it.
DEVICE_BINARY = b"cir.cu.device_binary"
BINARIES = ("__cuda_fatbin_str", "__hip_fatbin_str")

#: AMD's other representation: device modules as operations inside the host module. Those of the gpu dialect have many
#: uses; these are known by their name, which ends in the architecture.
OFFLOAD_MODULE = b"cir.offload.module"
GPU_MODULE = b"gpu.module"
OFFLOAD_SYMBOL = "offload_device_module"


class CirContainerForm(Record):
    """How a form is written: the container as an operation or an attribute, and a module's kind as which value.

    ``key`` is the attribute that holds the kind; ``is_nested`` puts the container into a module of its own.
    """

    is_op: bool
    kind: str
    key: bytes = KIND
    is_nested: bool = False


#: name → the forms that are written
FORMS = {
    "attribute": CirContainerForm(is_op=False, kind="#cir.offload<{}>"),
    "nested": CirContainerForm(is_op=False, kind="#cir.offload<{}>", is_nested=True),
    "op": CirContainerForm(is_op=True, kind="#cir.offload_kind<{}>"),
    "op-string": CirContainerForm(is_op=True, kind='"{}"'),
    "prototype": CirContainerForm(is_op=False, kind='"{}"', key=PROTOTYPE_KIND),
}

#: What current clang reads.
CURRENT = "attribute"
