"""Uses of each command, which its help ends with: what people come for, and what it does then."""

from __future__ import annotations

#: command → (words behind ``fatpack``, what they do)
EXAMPLES = {
    "pack": [
        ("pack --image file=k.cubin,arch=sm_90 --format fatbin -o k.fatbin", "a cubin into a CUDA fat binary"),
        (
            "pack --image file=k.hsaco,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip --host host.o",
            "an image for an AMD device into a copy of an object",
        ),
    ],
    "wrap": [("wrap k.fatbin --kind cuda -o k.o", "an object that registers the fat binary when it is linked")],
    "extract": [
        ("extract libx.so --arch sm_90 -d out", "all images for sm_90, one file each"),
        ("extract x.whl --form ptx -d out", "the PTX of every library in a wheel"),
    ],
    "inspect": [
        ("inspect libx.so", "what is in a file"),
        ("inspect x.whl --by arch,form", "what the libraries of a wheel have for which device, and how large it is"),
    ],
    "convert": [("convert k.fatbin --format offload-binary -o k.offload", "the same images for LLVM's linker wrapper")],
    "embed": [("embed host.o k.fatbin -o fat.o", "a container into a copy of an object")],
    "remove": [("remove fat.o --arch sm_70 -o smaller.o", "the images for sm_70 away, the others as they were")],
    "replace": [("replace fat.o new.cubin --arch sm_90 --form cubin -o other.o", "another cubin in the place of one")],
    "map": [
        ("map lib.a --form ptx -d cubins -- ptxas -arch {arch} {in} -o {out}", "each PTX through a compiler"),
        ("map x.o --form cubin -- nvdisasm {in}", "what a disassembler prints of each cubin"),
    ],
    "slim": [
        ("slim libx.so --for sm_90 --dry-run", "what would go, and how much smaller the file would be"),
        ("slim x.whl --for sm_80,sm_90 -d out", "a wheel for two devices"),
    ],
    "link-inputs": [("link-inputs a.o -L lib -lx -d out", "the device images that a device link of this line gets")],
    "targets": [
        ("targets sm_90a", "what a name means"),
        ("targets sm_80 --runs-on", "on which devices its code runs"),
    ],
    "check": [
        ("check 'dist/*.whl' --require sm_80,sm_90,sm_120+ptx", "whether every library serves these devices"),
    ],
    "check-stages": [("check-stages k.cir k.fatbin k.o", "what a later stage of a build lost")],
    "check-kpack": [
        ("check-kpack site-packages", "the programs of an installation, for all devices of its archives"),
        ("check-kpack site-packages --device gfx1101", "the same for one device"),
    ],
    "explain": [("explain libx.so --device sm_87", "which image a device gets, and why not the others")],
    "diff": [("diff old.whl new.whl", "what was added, lost and changed")],
    "report": [("report libx.so -o report.html", "a page with pictures of a file")],
    "doctor": [("doctor libx.so", "everything that can be verified, verified")],
    "survey": [("survey wheels -o tables", "the rows of all files in a folder, as Parquet")],
    "tool": [
        ("tool cuobjdump -lelf libx.so", "what cuobjdump would print"),
        ("tool --install stand-ins", "links for clang -B, nvcc and others that call tools by their names"),
    ],
    "completion": [("completion bash", "the script for bash, for eval or a file in its folder of completions")],
    "help": [("help inspect", "what a command takes")],
}
