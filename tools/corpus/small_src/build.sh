#!/usr/bin/env bash
# Small files with device code, from the tiny sources beside this script, for the `local_small` list of corpora.json:
#   LLVM_BIN=DIR CUDA=DIR build.sh        writes out/, with out/COMMANDS.txt and out/stderr.txt
# The known numbers are those of clang 22.1 and CUDA 13.0. Run it in a copy of this folder: paths given to the
# compilers are relative, because some of them end up in the files.
set -u
cd "$(dirname "$0")" || exit
: "${LLVM_BIN:?directory of the LLVM 22 tools}" "${CUDA:?root of a CUDA 13.0 toolkit}"
mkdir -p out
: > out/COMMANDS.txt
: > out/stderr.txt
failed=0
run() {
    echo "+ $*" >> out/COMMANDS.txt
    "$@" 2>> out/stderr.txt || { echo "failed ($?): $*" >&2; failed=1; }
}
clang() { run "$LLVM_BIN/clang" "$@"; }
nvcc() { run "$CUDA/bin/nvcc" -ccbin gcc "$@"; }
N=(-nogpulib -nogpuinc)
cuda=("${N[@]}" -Wno-unknown-cuda-version --cuda-path="$CUDA")
archs=--offload-arch=gfx90a,gfx1100

# The order of options matters: clang makes a hash of them, which becomes part of a symbol's name in HIP files.

# OpenMP: one target, several, LTO, target IDs
clang -c -O1 -fopenmp --offload-arch=gfx90a "${N[@]}" src/simple.c -o out/01_omp_gfx90a.o
clang -c -O1 -fopenmp --offload-arch=gfx90a,gfx1100,sm_80 "${N[@]}" src/omp2.c -o out/02_omp_multi.o
clang -c -O1 -fopenmp --offload-arch=sm_80 -foffload-lto "${N[@]}" src/simple.c -o out/03_omp_sm80_lto.o
clang -c -O1 -fopenmp --offload-arch=gfx90a:xnack+:sramecc-,gfx90a:xnack- "${N[@]}" src/simple.c -o out/04_omp_targetid.o

# CUDA and HIP by clang, new driver and old, with and without relocatable device code
clang -c -O1 -x cuda --offload-new-driver --offload-arch=sm_80,sm_90 "${cuda[@]}" src/k1.cu -o out/05_cuda_newdrv.o
clang -c -O1 -x cuda --offload-new-driver -fgpu-rdc --offload-arch=sm_80,sm_90 "${cuda[@]}" src/k1.cu \
    -o out/06_cuda_newdrv_rdc.o
clang -c -O1 -x cuda --offload-new-driver -fgpu-rdc -foffload-lto --offload-arch=sm_80,sm_90 "${cuda[@]}" src/k2.cu \
    -o out/07_cuda_newdrv_lto.o
clang -c -O1 -x hip --offload-new-driver -fgpu-rdc $archs "${N[@]}" src/k2.hip -o out/08_hip_newdrv_rdc.o
clang -c -O1 -x hip --offload-new-driver $archs "${N[@]}" src/k1.hip -o out/09_hip_newdrv.o
clang -c -O1 -x hip --no-offload-new-driver $archs "${N[@]}" src/k1.hip -o out/10_hip_olddrv.o
clang -c -O1 -x hip --no-offload-new-driver --offload-compress $archs "${N[@]}" src/k1.hip -o out/11_hip_olddrv_ccob.o
clang -c -O1 -x hip --no-offload-new-driver -fgpu-rdc $archs "${N[@]}" src/k1.hip -o out/12_hip_olddrv_rdc.o
clang -x hip --offload-device-only -O1 $archs "${N[@]}" src/k1.hip -o out/13_hip_devonly.hipfb
clang -x hip --offload-device-only --no-gpu-bundle-output -c -O1 --offload-arch=gfx90a "${N[@]}" src/k1.hip \
    -o out/13b_hip_devonly_gfx90a.hsaco
clang -c -x hip --offload-device-only --gpu-bundle-output -emit-llvm -fgpu-rdc -O1 $archs "${N[@]}" src/k1.hip \
    -o out/14_hip_devonly_bc.bundle

# Relocatable links and archives of the above
run ld -r out/01_omp_gfx90a.o out/02_omp_multi.o -o out/20_ldr_two_omp.o
run ld -r out/02_omp_multi.o out/06_cuda_newdrv_rdc.o out/08_hip_newdrv_rdc.o -o out/21_ldr_omp_cuda_hip.o
run "$LLVM_BIN/ld.lld" -r out/01_omp_gfx90a.o out/02_omp_multi.o -o out/22_lldr_two_omp.o
rm -f out/23_three.a out/24_thin.a out/25_bsd.a
run "$LLVM_BIN/llvm-ar" rcs out/23_three.a out/01_omp_gfx90a.o out/06_cuda_newdrv_rdc.o out/08_hip_newdrv_rdc.o
run "$LLVM_BIN/llvm-ar" rcs --thin out/24_thin.a out/01_omp_gfx90a.o out/06_cuda_newdrv_rdc.o
run "$LLVM_BIN/llvm-ar" rcs --format=bsd out/25_bsd.a out/01_omp_gfx90a.o out/06_cuda_newdrv_rdc.o

# Other hosts: COFF, AArch64, bitcode of a host LTO build
clang -c -O1 --target=x86_64-pc-windows-msvc -fopenmp -fopenmp-targets=amdgcn-amd-amdhsa \
    -Xopenmp-target=amdgcn-amd-amdhsa -march=gfx90a "${N[@]}" src/simple.c -o out/26_omp_gfx90a.obj
clang -c -O1 --target=aarch64-linux-gnu -fopenmp --offload-arch=gfx90a "${N[@]}" src/simple.c \
    -o out/27_omp_gfx90a_aarch64.o
clang -c -O1 -flto -fopenmp --offload-arch=gfx90a "${N[@]}" src/simple.c -o out/28_omp_hostlto.bc

# nvcc: plain, relocatable, LTO-IR, compression modes, bare fatbins, a cubin
sm80=(-gencode arch=compute_80,code=sm_80)
sm90=(-gencode 'arch=compute_90,code=[sm_90,compute_90]')
both80=(-gencode 'arch=compute_80,code=[sm_80,compute_80]')
nvcc -c -O1 "${sm80[@]}" "${sm90[@]}" src/nv.cu -o out/30_nvcc.o
nvcc -c -O1 -rdc=true "${sm80[@]}" "${sm90[@]}" src/nv.cu -o out/31_nvcc_rdc.o
nvcc -c -O1 -rdc=true -gencode arch=compute_80,code=lto_80 -gencode 'arch=compute_90,code=[lto_90,sm_90,compute_90]' \
    src/nv.cu -o out/32_nvcc_dlto.o
for mode in default size speed balance none; do
    nvcc -c -O1 --compress-mode=$mode "${both80[@]}" src/nv.cu -o out/33_nvcc_cm_$mode.o
done
nvcc -fatbin -O1 -gencode arch=compute_75,code=sm_75 -gencode arch=compute_100a,code=sm_100a \
    -gencode arch=compute_120f,code=sm_120f -gencode arch=compute_90,code=compute_90 src/nv.cu -o out/34_nvcc.fatbin
nvcc -fatbin -G "${both80[@]}" src/nv.cu -o out/35_nvcc_debug.fatbin
nvcc -fatbin "${sm80[@]}" src/empty.cu -o out/36_nvcc_empty.fatbin
nvcc -cubin -arch=sm_90 src/nv.cu -o out/37_nvcc_sm90.cubin
exit "$failed"
