"""Sources of a project with device code: units of kernels made of templates, as numerical libraries have them.

The same text is CUDA for nvcc, and HIP for a clang that has neither ROCm's headers nor its libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Declarations that clang requires for a kernel of HIP.
_HIP = """
#ifdef __HIP__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, void *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
#define THREAD __builtin_amdgcn_workitem_id_x()
#else
#define THREAD threadIdx.x
#endif
"""

_TEMPLATES = """

struct Add { template <typename T> __device__ static T of(T a, T b) { return a + b; } };
struct Larger { template <typename T> __device__ static T of(T a, T b) { return a > b ? a : b; } };
struct Scaled { template <typename T> __device__ static T of(T a, T b) { return a * b + a; } };

template <int N> struct Chain {
  template <typename Op, typename T> __device__ static T of(T x, const T *w) {
    return Chain<N - 1>::template of<Op>(Op::of(x, w[N - 1]), w);
  }
};
template <> struct Chain<0> {
  template <typename Op, typename T> __device__ static T of(T x, const T *) { return x; }
};

template <typename T, typename Op, int N> __global__ void chain(T *data, const T *weights) {
  data[THREAD] = Chain<N>::template of<Op>(data[THREAD], weights);
}

template <typename T, int ROWS, int COLUMNS> __global__ void product(const T *a, const T *b, T *c, int depth) {
  T sums[ROWS][COLUMNS] = {};
  for (int at = 0; at < depth; ++at) {
    T left[ROWS], right[COLUMNS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) left[i] = a[(THREAD * ROWS + i) * depth + at];
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) right[j] = b[at * COLUMNS + j];
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) sums[i][j] += left[i] * right[j];
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) c[(THREAD * ROWS + i) * COLUMNS + j] = sums[i][j];
}
"""

_TYPES = ("float", "double", "int", "long")
_OPERATIONS = ("Add", "Larger", "Scaled")

_ONE = "__global__ void one(int *data) { *data = 1; }\n"


def tiny(path: Path) -> Path:
    """Write the smallest unit: one kernel of one line. Return its path."""
    path.write_text(_HIP + _ONE)
    return path


def units(folder: Path, count: int, suffix: str) -> list[Path]:
    """Write so many units, each with 28 kernels that no other has; return their paths."""
    (folder / "kernels.h").write_text("#pragma once" + _HIP + _TEMPLATES)
    made = []
    for number in range(count):
        rows, columns, length = 2 + number % 4, 3 + number // 4, 8 + 2 * number
        lines = ['#include "kernels.h"']
        for name in _TYPES:
            for step in range(4):
                arguments = f"const {name} *, const {name} *, {name} *, int"
                lines.append(f"template __global__ void product<{name}, {rows}, {columns + 3 * step}>({arguments});")
            for operation in _OPERATIONS:
                lines.append(
                    f"template __global__ void chain<{name}, {operation}, {length}>({name} *, const {name} *);"
                )
        path = folder / f"unit{number}.{suffix}"
        path.write_text("\n".join([*lines, ""]))
        made.append(path)
    return made
