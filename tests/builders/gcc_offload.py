"""Programs of GCC's offloading: built by GCC itself, and made by hand for what no GCC at hand builds.

``build_program`` compiles a program with two target regions and two variables. ``made_by_hand`` writes a library as
mkoffload of another version or for another host does: its record, tables and constructor, with images that are given.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.reference import tool

#: options of gcc for each accelerator. nvptx-as would call an assembler of CUDA to verify the code.
NVPTX = ("-foffload=nvptx-none", "-foffload-options=nvptx-none=-Wa,--no-verify")
GCN = ("-foffload=amdgcn-amdhsa",)
BOTH = ("-foffload=amdgcn-amdhsa,nvptx-none", NVPTX[1])

REGIONS = """
#include <stdio.h>
#pragma omp declare target
int counter = 7;
double table[4];
int helper(int x) { return x * counter; }
#pragma omp end declare target
void scale(float *a, int n, float f) {
#pragma omp target teams distribute parallel for map(tofrom: a[0:n])
  for (int i = 0; i < n; i++) a[i] *= f;
}
int main(int c, char **v) {
  int s = 0; float a[8] = {1};
#pragma omp target map(tofrom: s)
  { s += helper(c); }
  scale(a, 8, 2.f);
  printf("%d %f\\n", s, a[0]);
  return 0;
}
"""

OPENACC = """
float tab[4];
#pragma acc declare create(tab)
int main(int c, char **v) {
  float a[64];
  for (int i = 0; i < 64; i++) a[i] = i;
#pragma acc parallel loop copy(a) num_gangs(4) vector_length(32)
  for (int i = 0; i < 64; i++) a[i] = a[i] * c;
#pragma acc kernels copy(a)
  for (int i = 0; i < 64; i++) a[i] += 1;
  return a[3] > 99;
}
"""


def build_program(folder: Path, name: str, *options: str, model: str = "-fopenmp") -> Path:
    """Return what GCC 12 makes of the source of a model with some options."""
    source = folder / ("acc.c" if model == "-fopenacc" else "two.c")
    source.write_text(OPENACC if model == "-fopenacc" else REGIONS)
    made = folder / name
    # Both options of one kind add up: the last list of accelerators counts.
    accelerators = [option.removeprefix("-foffload=") for option in options if option.startswith("-foffload=")]
    rest = [option for option in options if not option.startswith("-foffload=")]
    words = [f"-foffload={','.join(accelerators)}"] if accelerators else []
    command = [tool("gcc-12"), "-O2", model, *words, *rest, str(source), "-o", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made


#: host → compiler with its options
HOSTS = {
    "x86-64": ("gcc",),
    "i386": ("gcc", "-m32"),
    "aarch64": ("aarch64-linux-gnu-gcc",),
}

_HEAD = """
typedef __UINTPTR_TYPE__ word;
extern void GOMP_offload_register_ver(unsigned, const void *, int, const void *);
extern void GOMP_target_ext(void);
static void first(void) { GOMP_target_ext(); }
static void second(void) { GOMP_target_ext(); }
static int variable;
static void *functions[2] __attribute__((section(".gnu.offload_funcs"), used)) = {first, second};
static struct { void *at; word size; } variables[1] __attribute__((section(".gnu.offload_vars"), used)) =
  {{&variable, sizeof variable}};
static void *const table[4] = {functions, functions + 2, variables, variables + 1};
"""

_GCN = """
static const unsigned char code[] __attribute__((aligned(32))) = {CODE};
static const struct { word size; const void *code; } image = {sizeof code, code};
static const struct { const char *name; int dims[3], sgprs, vgprs; } kernels[] =
  {{"_init_array"}, {"_fini_array"}, {"first"}, {"second", {4, 1, 32}}};
static const struct { MASK const void *image; unsigned count; const void *kernels; INDIRECT unsigned variables; } data =
  {REQUIRES &image, KERNELS, kernels, COUNT VARIABLES};
"""

_NVPTX = """
static const char text[] = CODE;
static const char library[] = "// BEGIN PREAMBLE\\n.version 6.0\\n.target sm_35\\n.address_size 64\\n";
static const struct { const char *text; word size; } texts[] = {{text, sizeof text}, {library, sizeof library}};
static const char *const names[] = {"variable"};
static const struct { const char *name; unsigned short dims[3]; } kernels[] = {{"first"}, {"second", {4, 1, 32}}};
static const struct { MASK const void *texts; unsigned count; const void *names; unsigned variables;
  const void *kernels; unsigned functions; INDIRECT } data =
  {REQUIRES texts, 2, names, VARIABLES, kernels, KERNELS COUNT};
"""

_TAIL = """
static __attribute__((constructor)) void init(void) { GOMP_offload_register_ver(VERSION, table, DEVICE, &data); }
"""


def made_by_hand(
    folder: Path,
    device: int,
    code: bytes,
    *,
    version: int = 0x10002,
    host: str = "x86-64",
    requires: int = 0,
    kernels: int | None = None,
    variables: int = 1,
    options: tuple[str, ...] = ("-shared", "-fPIC"),
) -> Path:
    """Return a library with one record: a code object (device 8) or a PTX text and one more (5), two functions.

    ``version`` decides the fields, as it does for libgomp; ``kernels`` and ``variables`` are the stored numbers.
    """
    library = version >> 16
    is_gcn = device == 8
    body = _GCN if is_gcn else _NVPTX
    stored = (4 if is_gcn else 2) if kernels is None else kernels
    words = {
        "VARIABLES": str(variables),
        "KERNELS": str(stored) if is_gcn or library < 3 else f"{stored},",
        "REQUIRES": f"{requires:#x}," if library >= 2 else "",
        "MASK": "word requires;" if library >= 2 else "",
        "INDIRECT": "unsigned indirect;" if library >= 3 else "",
        "COUNT": ("0," if is_gcn else "0") if library >= 3 else "",
        "CODE": ",".join(map(str, code)) if is_gcn else '"' + "".join(f"\\x{byte:02x}" for byte in code) + '"',
        "VERSION": hex(version),
        "DEVICE": str(device),
    }
    text = _HEAD + body + _TAIL
    for name in ("VARIABLES", "KERNELS", "REQUIRES", "MASK", "INDIRECT", "COUNT", "VERSION", "DEVICE", "CODE"):
        text = text.replace(name, words[name])
    source = folder / "made.c"
    source.write_text(text)
    made = folder / f"made-{host}-{device}-{version:x}"
    compiler, *own = HOSTS[host]
    command = [tool(compiler), *own, "-O0", "-w", *options, "-nostdlib", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run([*command, str(source), "-o", str(made)], check=True)
    return made
