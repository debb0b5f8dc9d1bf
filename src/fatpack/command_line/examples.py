"""Examples of each command, for its help."""

from __future__ import annotations

#: command → (words after ``fatpack``, effect)
EXAMPLES = {
    "pack": [
        ("pack --image file=k.cubin,arch=sm_90 --format fatbin -o k.fatbin", "pack a cubin into a CUDA fat binary"),
        (
            "pack --image file=k.hsaco,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip --host host.o",
            "put an image for an AMD GPU into a copy of an object",
        ),
    ],
    "wrap": [("wrap k.fatbin --kind cuda -o k.o", "make an object that registers the fat binary in a program")],
    "extract": [
        ("extract libx.so --arch sm_90 -d out", "write all images for sm_90, one file each"),
        ("extract x.whl --form ptx -d out", "write the PTX of every library in a wheel"),
        ("extract fat.o --arch sm_90 --form cubin -o new.cubin", "take one image out; `fatpack replace` puts it back"),
    ],
    "inspect": [
        ("inspect libx.so", "list the containers, images and kernels"),
        ("inspect x.whl --by arch,form", "print the images and bytes for each architecture"),
    ],
    "convert": [
        ("convert k.fatbin --format offload-binary -o k.offload", "convert a fat binary for LLVM's linker wrapper")
    ],
    "embed": [("embed host.o k.fatbin -o fat.o", "put a container into a copy of an object")],
    "remove": [("remove fat.o --arch sm_70 -o smaller.o", "remove the images for sm_70, keep all others")],
    "replace": [
        (
            "replace fat.o new.cubin --arch sm_90 --form cubin -o other.o",
            "replace the cubin for sm_90, as one that `fatpack extract` took out and that was changed",
        )
    ],
    "map": [
        ("map lib.a --form ptx -d cubins -- ptxas -arch {arch} {in} -o {out}", "compile each PTX"),
        ("map x.o --form cubin -- nvdisasm {in}", "disassemble each cubin"),
    ],
    "normalize": [
        ("normalize k.o --in-place", "take times and temporary names out of an object, before it is linked or signed"),
        ("normalize libx.so --dry-run", "list the fields, with offsets and values"),
    ],
    "slim": [
        ("slim libx.so --for sm_90 --dry-run", "show the images to remove, and the new size"),
        ("slim x.whl --for sm_80,sm_90 -d out", "write a smaller wheel for two GPUs"),
        ("slim x.whl --lossless -d out", "compress better, and remove nothing; takes minutes, --level 3 less"),
        ("slim x.whl --max-size 400MB -d out", "write a wheel of that size, with what costs least gone"),
        ("slim --environment .venv --for sm_90 --backup originals", "slim what is installed; --undo restores it"),
    ],
    "split": [
        ("split x.whl --dry-run", "show what each GPU would get of a wheel for its family"),
        ("split dist/*.whl --by family -d variants", "write variant wheels and the index file of a release"),
        ("split x.whl --by sm_80,hopper=sm_90 -d out", "write wheels for these labels, and one for all others"),
        ("split --verify x.whl out", "prove each wheel, and what every GPU would get"),
    ],
    "link-inputs": [("link-inputs a.o -L lib -lx -d out", "write the device images of this link line")],
    "targets": [
        ("targets sm_90a", "explain a name"),
        ("targets sm_80 --runs-on", "list the GPUs that run its code"),
    ],
    "check": [
        (
            "check 'dist/*.whl' --require sm_80,sm_90,sm_120+ptx",
            "check that every library runs on these GPUs and later ones",
        ),
    ],
    "check-stages": [("check-stages k.cir k.fatbin k.o", "list kernels and architectures that a stage lost")],
    "check-kpack": [
        ("check-kpack site-packages", "check an installation for all GPUs of its archives"),
        ("check-kpack site-packages --device gfx1101", "check it for one GPU"),
    ],
    "explain": [("explain libx.so --device sm_87", "show the image that a GPU loads, and why not the others")],
    "diff": [("diff old.whl new.whl", "list added, lost and changed GPU code")],
    "report": [("report libx.so -o report.html", "write a page about one library")],
    "doctor": [("doctor libx.so", "verify a library")],
    "survey": [("survey wheels -o tables", "write the rows of all files in a folder, as Parquet")],
    "tool": [
        ("tool cuobjdump -lelf libx.so", "print what cuobjdump prints"),
        ("tool --install stand-ins", "make links for clang -B, nvcc and other callers"),
    ],
    "completion": [("completion bash", "print the script for bash")],
    "help": [("help inspect", "show the options of a command")],
}
