"""The functions of the runtimes that matter: what a call of each says, and which argument is what.

CUDA: ``crt/host_runtime.h`` and ``cuda_runtime_api.h`` of 13.0; HIP: clang/lib/CodeGen/CGCUDANV.cpp; OpenMP: LLVM's
``openmp/libompdevice`` interface as OMPIRBuilder.cpp calls it (LLVM 22.1). Arguments are counted from 0.
"""

from __future__ import annotations

MODELS = ("cuda", "hip")

#: model → what the names of its functions start with
NAME_PREFIXES = {"cuda": ("__cuda", "cuda"), "hip": ("__hip", "hip")}
_OTHERS = {"__tgt_": "openmp", "__sycl_": "sycl"}

#: takes a wrapper, a descriptor, or a container: argument 0
REGISTER_BINARY = {
    "__cudaRegisterFatBinary": "cuda",
    "__hipRegisterFatBinary": "hip",
    "__tgt_register_lib": "openmp",
    "__sycl_register_lib": "sycl",
}
#: takes a handle, argument 1, and the device's name for it, argument 3
REGISTER_FUNCTION = {"__cudaRegisterFunction": "cuda", "__hipRegisterFunction": "hip"}
#: the same for what is no kernel
REGISTER_VARIABLE = {
    f"__{model}Register{what}": model
    for model in MODELS
    for what in ("Var", "ManagedVar", "Surface", "Texture", "HostVar")
}
#: takes a wrapper and a callback that registers kernels, and is defined by nvcc's device link
LINKED_BINARY = "__cudaRegisterLinkedBinary_"

#: what launches a kernel → the argument that is its handle
LAUNCH = {
    "cudaLaunch": 0,
    "cudaLaunchKernel": 0,
    "cudaLaunchKernel_ptsz": 0,
    "cudaLaunchCooperativeKernel": 0,
    "cudaLaunchCooperativeKernel_ptsz": 0,
    "cudaLaunchKernelExC": 1,
    "cudaLaunchKernelExC_ptsz": 1,
    "__cudaGetKernel": 1,
    "hipLaunchKernel": 0,
    "hipLaunchKernel_spt": 0,
    "hipLaunchCooperativeKernel": 0,
    "__tgt_target_kernel": 4,
}
#: of these, those that take the address of a stub first
LAUNCH_ADDRESS = frozenset(
    name for name, number in LAUNCH.items() if not number and name.startswith("cudaLaunchKernel")
)
#: is called by the stubs of kernels alone: a file that calls it defines kernels
POP = {"__cudaPopCallConfiguration": "cuda", "__hipPopCallConfiguration": "hip"}
PUSH = {"__cudaPushCallConfiguration": "cuda", "__hipPushCallConfiguration": "hip"}

TARGET_KERNEL = "__tgt_target_kernel"
REGISTER_OPENMP = "__tgt_register_lib"
REGISTER_SYCL = "__sycl_register_lib"

#: defined by compilers: a function that launches one kernel, and a bundle that the link makes
STUB = "__device_stub__"
HIP_IMAGE = "__hip_fatbin_"

FUNCTION_NAMES = frozenset(
    {
        *REGISTER_BINARY,
        *REGISTER_FUNCTION,
        *REGISTER_VARIABLE,
        *LAUNCH,
        *POP,
        *PUSH,
        TARGET_KERNEL,
        REGISTER_OPENMP,
        REGISTER_SYCL,
    }
)
"""Every function whose whole name is known."""

#: what one of the names in a table of strings has in it, if any of them is there: what is asked first
NAME_HINTS = (
    b"CallConfiguration",
    b"RegisterFatBinary",
    b"LaunchKernel",
    b"__cudaGetKernel",
    b"__tgt_",
    b"__sycl_register",
    b"sycl.descriptor",
    b"__device_stub__",
    b"__hip_fatbin_",
)


def function_model(name: str) -> str:
    """Return the model whose function has a name, "" if that is of no runtime."""
    found = next((model for model, prefixes in NAME_PREFIXES.items() if name.startswith(prefixes)), "")
    return found or next((model for prefix, model in _OTHERS.items() if name.startswith(prefix)), "")


def is_runtime_function(name: str) -> bool:
    """Return whether a function of this name says something about launching or registering."""
    return name in FUNCTION_NAMES or name.startswith(LINKED_BINARY)
