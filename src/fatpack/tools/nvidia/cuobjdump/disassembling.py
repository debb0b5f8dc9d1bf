"""``-sass``: cubins handed over to NVIDIA's nvdisasm, which prints their code.

It is looked for as cuobjdump 13.5 does it: in the folder that ``NVDISASM_PATH`` names, beside the program, on PATH.
What it prints passes through, and where it fails its exit code is the tool's.
"""

from __future__ import annotations

import os
import sys

from fatpack.concurrency.system import find_programs
from fatpack.tools.nvidia.cuobjdump.output import ExitTool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.tools.nvidia.cuobjdump.output import ToolOutput

_NAME = "nvdisasm"

_MISSING = (
    "Could not find executable file 'nvdisasm'; you can try adding path to environment variables PATH or "
    "NVDISASM_PATH; "
    "the CUDA toolkit has it, and the package nvidia-cuda-nvdisasm of PyPI"
)


class Disassembler:
    """Runs nvdisasm; ``beside`` is the folder of the program, "" if it is not known.

    Its methods raise Ended where that is not to be found or fails: ``output`` has the message and the exit code.
    """

    def __init__(self, beside: str, output: ToolOutput) -> None:
        self._beside = beside
        self._output = output

    def whole(self, data: View, *, is_sorted: bool) -> None:
        """Print the code of a cubin."""
        self._run(data, ["-pb", "-hex", "-novliw", *(["-sort"] if is_sorted else [])])

    def raw(self, code: View, arch: str) -> None:
        """Print instructions for an architecture, which are nothing but that."""
        self._run(code, ["-b", f"SM{arch.removeprefix('sm_').rstrip('af')}", "-hex"])

    def _run(self, data: View, options: list[str]) -> None:
        self._output.flush()
        program = _found(self._beside)
        if program is None:
            self._output.fatal(_MISSING)
            raise ExitTool
        # Processes and temporary files take longer to load than most files to list.
        import subprocess
        import tempfile

        from fatpack.io.atomic_write import write_file

        with tempfile.TemporaryDirectory(prefix="fatpack.") as folder:
            path = os.path.join(folder, "cubin")
            write_file(path, [data])
            sys.stdout.flush()
            done = subprocess.run([program, path, *options], stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            self._output.code = done.returncode if 0 < done.returncode < 256 else 1
            raise ExitTool


def _found(beside: str) -> str | None:
    """Return the path of nvdisasm, None if it is nowhere."""
    return next(find_programs([_NAME], (os.environ.get("NVDISASM_PATH", ""), beside)), None)
