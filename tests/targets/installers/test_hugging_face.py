"""The loader of Hugging Face's kernels, against kernels 0.17.2."""

from __future__ import annotations

import json
import random
import subprocess

import pytest
from tests import reference

from fatpack.targets.installers.hugging_face import is_taken_for_cuda, is_taken_for_rocm, parse_capability

CAPABILITIES = [(major, minor) for major in range(5, 14) for minor in range(10)]


def test_a_declared_architecture_is_read() -> None:
    found = parse_capability("12.0+PTX")
    assert found is not None
    assert (found.arch, found.has_ptx) == ("sm_120", True)
    exact = parse_capability("9.0a")
    assert exact is not None
    assert (exact.arch, exact.suffix) == ("sm_90a", "a")
    assert [parse_capability(text) for text in ("", "9", "sm_90", "9.x", "9.0b", "+PTX", "9.٣")] == [None] * 7


def test_amd_is_taken_by_its_processor() -> None:
    assert is_taken_for_rocm(["gfx90a", "gfx942"], "gfx90a:sramecc+:xnack-")
    assert not is_taken_for_rocm(["gfx942"], "gfx90a")
    assert is_taken_for_rocm([], "gfx90a")


_ASKS = """
import json, sys
from kernels.archs import _supports_cuda_capability
for line in sys.stdin:
    archs, capabilities = json.loads(line)
    print(json.dumps([bool(_supports_cuda_capability(archs, tuple(one))) for one in capabilities]))
"""


@pytest.mark.reference
def test_the_loader_takes_the_same_devices() -> None:
    draw = random.Random(5)
    texts = [
        f"{major}.{minor}{suffix}{ptx}"
        for major, minor in [(7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)]
        for suffix in ("", "a", "f")
        for ptx in ("", "+PTX")
    ]
    texts += ["sm_90", "", "9", "8.0+ptx"]
    cases = [[text] for text in texts] + [draw.sample(texts, draw.randint(2, 5)) for _ in range(100)]
    lines = "".join(f"{json.dumps([archs, CAPABILITIES])}\n" for archs in cases)
    command = [reference.variant_tool("python"), "-c", _ASKS]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [[is_taken_for_cuda(archs, one) for one in CAPABILITIES] for archs in cases]
