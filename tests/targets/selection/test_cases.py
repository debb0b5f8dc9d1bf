"""The image that a runtime selects: 114 cases, each with the rule that decides and the mark of its evidence.

Marks: S read in the runtime's source, D a vendor's document, F a report by others, O observed on an H100
(capability 9.0, driver 580.159.04, CUDA 13.0), U unknown. A case that is marked U must not come out certain.

Images are written as in the table of the rules: ``90`` is a cubin for sm_90, ``p90`` PTX, ``L80`` LTO-IR; of other
runtimes they are target IDs. What is expected is the image that is taken, in brackets where it is compiled when it is
loaded, or the error; a fault of an image that was taken stands behind it.
"""

from __future__ import annotations

import re

import pytest

from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.selection import amd, cuda, sycl_openmp
from fatpack.targets.selection.model import CandidateImage, SelectionResult

#: number | images | device; settings | expected | rule, mark
CUDA = """
1   | 90                     | 9.0                  | 90        | C2 O
2   | 80                     | 9.0                  | 209       | C2 O
3   | p80                    | 9.0                  | (p80)     | C7 O
4   | 80 p75                 | 9.0                  | (p75)     | C9 O
5   | 90 p80                 | 9.0                  | 90        | C9 O
6   | 90 90a                 | 9.0                  | 90a       | C9 O
6   | 90a 90                 | 9.0                  | 90a       | C9 O
7   | 90a p90                | 9.0                  | 90a       | C9 O
8   | p75 p80 p90            | 9.0                  | (p90)     | C9 O
9   | p90 p90a               | 9.0                  | (p90a)    | C9 O
9   | p90a p90               | 9.0                  | (p90a)    | C9 O
10  | p80 p90a               | 9.0                  | (p90a)    | C9 O
11  | p80 p100               | 9.0                  | (p80)     | C7 O
12  | p100                   | 9.0                  | 209       | C7 O
12  | p100a                  | 9.0                  | 209       | C7 O
12  | p100f                  | 9.0                  | 209       | C7 O
13  | 100 p80                | 9.0                  | (p80)     | C9 O
14  | 80 86 89               | 9.0                  | 209       | C2 O
15  | 90 100f p120           | 9.0                  | 90        | C9 O
16  | 90 90                  | 9.0                  | 90        | C9 O
17  | 90 p80                 | 9.0; force           | (p80)     | C13 O
18  | 90                     | 9.0; force           | 209       | C13 O
19  | 80 p75                 | 9.0; disable         | p75 223   | C13 O
20  | 90 p80                 | 9.0; disable         | 90        | C13 O
21  | p90@9.1                | 9.0; driver 13.0     | p90 222   | C8 O
22  | p80@8.0 p90@9.4        | 9.0; driver 13.0     | p90 222   | C10 O
23  | 90 p90@9.4             | 9.0; driver 13.0     | 90        | C9 O
26  | 80 p80                 | 9.0                  | (p80)     | C11 O
27  | L80                    | 9.0                  | 209       | C12 O
28  | L80 p75                | 9.0                  | (p75)     | C12 O
29  |                        | 9.0                  | 209       | C11 O
30  | 90                     | 9.0                  | 90        | C1 O
30  | 80                     | 9.0                  | 209       | C1 O
33  | 90@zstd                | 9.0; driver 13.0     | 90        | C15 O
34  | 90@zstd                | 9.0; driver 12.2     | 90 200    | C15 D
35  | 80                     | 8.6                  | 80        | C2 D
36  | 80 86                  | 8.6                  | 86        | C9 U
37  | 86                     | 8.0                  | 209       | C2 D
38  | 86                     | 8.9                  | 86        | C2 D
39  | 89                     | 8.6                  | 209       | C2 D
40  | 80 p86                 | 8.6                  | 80        | C9 U
42  | 80                     | 8.7; driver 12.9     | 209       | C3 F
43  | 86                     | 8.7; driver 12.9     | 209       | C3 D
44  | 80 p80                 | 8.7                  | (p80)     | C3 F
45  | 87                     | 8.7                  | 87        | C3 F
46  | 80                     | 8.7; driver 13.0     | 209       | C3 U
47  | 87                     | 8.9                  | 209       | C3 D
48  | 70                     | 7.2                  | 209       | C3 D
49  | 72                     | 7.5                  | 209       | C3 D
50  | 61                     | 6.2                  | 209       | C3 D
51  | 60                     | 6.1                  | 60        | C2 D
52  | 70                     | 7.5                  | 70        | C2 D
53  | 90                     | 10.0                 | 209       | C2 D
54  | 90a                    | 10.0                 | 209       | C4 D
55  | p90a                   | 10.0                 | 209       | C4 D
56  | p90                    | 12.0                 | (p90)     | C7 D
57  | 100                    | 10.3                 | 100       | C2 D
58  | 100a                   | 10.3                 | 209       | C4 F
59  | 100a p100              | 10.3                 | (p100)    | C7 D
60  | 100f                   | 10.3                 | 100f      | C5 D
61  | p100f                  | 10.3                 | (p100f)   | C5 D
62  | 103f                   | 10.0                 | 209       | C5 D
63  | 100f                   | 11.0                 | 209       | C5 D
64  | p100f                  | 12.0                 | 209       | C5 D
65  | 101a                   | 11.0                 | 101a      | C6 U
66  | p101                   | 11.0                 | (p101)    | C7 D
67  | 100                    | 12.0                 | 209       | C2 D
68  | 120                    | 12.1                 | 120       | C2 F
69  | 120a                   | 12.1                 | 209       | C4 D
70  | 120f                   | 12.1                 | 120f      | C5 D
71  | 121                    | 12.0                 | 209       | C2 D
"""

HIP = """
72  | gfx90a                          | gfx90a:sramecc+:xnack-        | gfx90a             | H3 S
73  | gfx90a:xnack-                   | gfx90a:sramecc+:xnack+        | error              | H3 S
74  | gfx90a:xnack+                   | gfx90a:sramecc+:xnack-        | error              | H10 S
75  | gfx90a:xnack- gfx90a:xnack+     | gfx90a:sramecc+:xnack+        | gfx90a:xnack+      | H3 S
76  | gfx90a gfx90a:xnack+            | gfx90a:sramecc+:xnack+        | gfx90a             | H3 S
77  | gfx90a:sramecc-                 | gfx90a:sramecc+:xnack-        | error              | H3 S
78  | gfx1100:xnack+                  | gfx1100                       | error              | H3 S
79  | gfx1030                         | gfx1031                       | error              | H3 S
82  | gfx10-3-generic                 | gfx1031                       | gfx10-3-generic    | H4 S
83  | gfx1030 gfx10-3-generic         | gfx1030                       | gfx1030            | H2 S
84  | gfx9-4-generic                  | gfx942:sramecc+:xnack-        | gfx9-4-generic     | H4 S
85  | gfx9-4-generic:xnack+           | gfx942:sramecc+:xnack-        | error              | H3 S
86  | gfx9-4-generic                  | gfx950:sramecc+:xnack-        | gfx9-4-generic     | H4 S
87  | gfx940                          | gfx942:sramecc+:xnack-        | error              | H3 S
88  | gfx11-generic                   | gfx1100                       | gfx11-generic      | H4 S
89  | gfx11-generic                   | gfx1151                       | gfx11-generic      | H4 S
90  | gfx11-generic                   | gfx1154                       | error              | H4 S
91  | gfx11-generic                   | gfx1100; rocm 6.2             | gfx11-generic HSA  | H13 F
92  | gfx12-generic                   | gfx1201                       | gfx12-generic      | H4 S
93  | gfx9-generic                    | gfx90a:sramecc+:xnack-        | error              | H4 S
94  | gfx9-generic                    | gfx900:xnack-                 | gfx9-generic       | H4 S
95  | gfx9-generic                    | gfx906:sramecc-:xnack-        | error              | H4 U
96  | amdgcnspirv                     | gfx1100                       | (amdgcnspirv)      | H11 S
97  | amdgcnspirv gfx11-generic       | gfx1102                       | gfx11-generic      | H2 S
98  | amdgcnspirv gfx1100             | gfx1100; force                | (amdgcnspirv)      | H2 S
101 | gfx1030                         | gfx1031                       | error              | H6 S
"""

OPENMP = """
105 | 80 89                           | 8.9                           | 80                 | M1 S
106 | 100a                            | 10.3                          | 100a 209           | M2 S
107 | gfx90a:xnack+                   | gfx90a:sramecc+:xnack-        | error              | M3 S
108 | gfx11-generic                   | gfx1100                       | error              | M3 U
"""

HIP_DEVICES = """
99  | gfx1100                         | gfx1100 gfx1036               | gfx1100, error     | H8 S
100 | gfx1100                         | gfx1036 gfx1100               | error, error       | H8 S
"""

#: An image is its triple, with the compile_target behind a colon; a device is preceded by its adapter.
SYCL = """
109 | spir64                                       | level-zero acm_g10    | (spir64)           | Y2 S
110 | spir64_gen:acm_g10 spir64_gen:pvc spir64     | level-zero acm_g10    | spir64_gen:acm_g10 | Y1 F
111 | spir64_gen:pvc spir64                        | level-zero acm_g10    | (spir64)           | Y1 F
112 | spir64_gen:pvc                               | level-zero acm_g10    | error              | Y1 F
113 | spir64_x86_64                                | opencl-cpu spr        | spir64_x86_64      | Y1 F
114 | nvptx64:sm_80 nvptx64:sm_90                  | cuda sm_90            | nvptx64:sm_80      | Y2 S
"""

#: Cases that no selection models yet, with the reason.
NOT_MODELLED = {
    24: "damage of the image that is taken is found by reading it",
    25: "an image that contradicts its label is found by reading it (FP1102)",
    31: "relocatable entries are the linker's to choose from",
    32: "bare PTX goes to the compiler, which has no containers",
    41: "which kernels a library asks for by name",
    80: "an override of the device's processor counts for nothing",
    81: "an override of the device's processor counts for nothing",
    102: "a runtime that crashes",
    103: "kpack archives are not read",
    104: "kpack archives are not read",
}


def rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(cell.strip() for cell in line.split("|")) for line in table.strip().splitlines()]


def spelled(answer: SelectionResult, names: list[str], errors: dict[str, str]) -> str:
    image = "" if answer.image is None else names[answer.image]
    if answer.outcome == "compiles":
        return f"({image})"
    error = next((code for code, text in errors.items() if answer.error.startswith(text)), answer.error)
    return f"{image} {error}".strip() if answer.outcome == "fails" else image


def candidate(text: str) -> CandidateImage:
    name, _, more = text.partition("@")
    kind, arch = re.fullmatch(r"([pL]?)(.*)", name).groups()  # type: ignore[union-attr]
    version = tuple(map(int, more.split("."))) if kind == "p" and more else None
    form = {"p": "ptx", "L": "ltoir", "": "cubin"}[kind]
    return CandidateImage(form, f"sm_{arch}", ptx_version=version, compression=more if kind == "" and more else None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "images", "device", "expected", "evidence"), rows(CUDA))
def test_the_driver_takes_an_entry(number: str, images: str, device: str, expected: str, evidence: str) -> None:
    capability, _, setting = device.partition("; ")
    arch = parse_nvidia(f"sm_{capability.replace('.', '')}")
    assert arch
    driver = tuple(map(int, setting.removeprefix("driver ").split("."))) if setting.startswith("driver") else None
    names = images.split()
    answer = cuda.select_cuda_image(
        [candidate(name) for name in names],
        arch,
        driver,  # type: ignore[arg-type]
        forces_ptx=setting == "force",
        disables_ptx=setting == "disable",
    )
    errors = {str(code): text for code, text in cuda.ERRORS.items()}
    assert spelled(answer, [name.partition("@")[0] for name in names], errors) == expected
    assert answer.reason
    if evidence.endswith("U"):
        assert not answer.is_certain
    if evidence.endswith("O"):
        assert answer.is_certain
    if answer.image is not None and len(set(names)) < len(names):
        assert answer.image == 0


@pytest.mark.parametrize(("number", "images", "device", "expected", "evidence"), rows(HIP))
def test_the_hip_runtime_takes_an_entry(number: str, images: str, device: str, expected: str, evidence: str) -> None:
    device, _, setting = device.partition("; ")
    names = images.split()
    rocm = (6, 2) if setting == "rocm 6.2" else None
    answer = amd.select_hip_image(
        [CandidateImage("", name) for name in names], device, rocm, forces_spirv=setting == "force"
    )
    assert spelled(answer, names, {"error": amd.HIP_ERROR, "HSA": "HSA_STATUS"}) == expected


@pytest.mark.parametrize(("number", "images", "device", "expected", "evidence"), rows(OPENMP))
def test_the_plugins_of_openmp_take_an_image(
    number: str, images: str, device: str, expected: str, evidence: str
) -> None:
    is_nvidia = not device.startswith("gfx")
    triple = "nvptx64-nvidia-cuda" if is_nvidia else "amdgcn-amd-amdhsa"
    names = images.split()
    candidates = [CandidateImage("cubin", f"sm_{name}" if is_nvidia else name, triple) for name in names]
    answer = sycl_openmp.select_openmp_image(candidates, f"sm_{device.replace('.', '')}" if is_nvidia else device)
    assert spelled(answer, names, {"error": sycl_openmp.OPENMP_ERROR, "209": cuda.ERRORS[209]}) == expected


@pytest.mark.parametrize(("number", "images", "devices", "expected", "evidence"), rows(HIP_DEVICES))
def test_the_hip_runtime_serves_devices_in_order(
    number: str, images: str, devices: str, expected: str, evidence: str
) -> None:
    names = images.split()
    answers = amd.select_hip_images([CandidateImage("", name) for name in names], devices.split())
    assert ", ".join(spelled(answer, names, {"error": amd.HIP_ERROR}) for answer in answers) == expected


@pytest.mark.parametrize(("number", "images", "device", "expected", "evidence"), rows(SYCL))
def test_the_adapters_of_sycl_take_an_image(
    number: str, images: str, device: str, expected: str, evidence: str
) -> None:
    adapter, name = device.split()
    names = images.split()
    parts = [text.partition(":") for text in names]
    answer = sycl_openmp.select_sycl_image(
        [CandidateImage("", arch, triple) for triple, _, arch in parts], name, adapter
    )
    assert spelled(answer, names, {"error": sycl_openmp.SYCL_ERROR}) == expected
    assert answer.is_certain is (number != "114")  # its architecture is not looked at: it may fail


def test_opencl_takes_the_last_spirv() -> None:
    images = [CandidateImage("", "", "spir64-unknown-unknown"), CandidateImage("", "", "spir64")]
    assert sycl_openmp.select_sycl_image(images, "pvc", "opencl-gpu").image == 1
    assert sycl_openmp.select_sycl_image(images, "pvc", "level-zero").image == 0


def test_every_case_is_here() -> None:
    numbers = {int(row[0]) for table in (CUDA, HIP, HIP_DEVICES, OPENMP, SYCL) for row in rows(table)}
    assert numbers | set(NOT_MODELLED) == set(range(1, 115))
    assert not numbers & set(NOT_MODELLED)
