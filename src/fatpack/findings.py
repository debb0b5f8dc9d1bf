"""The codes of findings: stable, one line each, documented in ``docs/findings.md`` (generated from here).

FP10xx scan and nesting, FP11xx images, FP12xx LLVM offload binary, FP13xx clang offload bundles, FP14xx CUDA fat
binaries, FP15xx CIR containers, FP16xx kpack archives, FP17xx packages, FP18xx SYCLBIN, FP19xx AKS2 archives, FP20xx
ELF hosts, FP21xx archives, FP22xx COFF objects, FP23xx PE images, FP24xx bitcode, FP25xx Mach-O, FP26xx Metal
libraries, FP27xx GCC's offloading, FP28xx databases of kernels, FP30xx registrations and launches in programs, FP31xx
code in kpack archives, FP32xx stages of a unit, FP33xx policies, FP34xx libraries of Tensile, FP36xx checks of
`doctor`. A code is never reused. A new code needs a line in ``CODES``, and a module that yields it.
"""

from __future__ import annotations

from fatpack.errors import LimitExceeded, truncate_words
from fatpack.io.source import Span, is_in_file
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: code → (severity, meaning and advice)
CODES: dict[str, tuple[str, str]] = {
    "FP1001": ("error", "A container cannot be read; the message names the field. Intact neighbours are listed."),
    "FP1002": ("warning", "Bytes between or after the containers of a section belong to none of them."),
    "FP1003": ("note", "Zero bytes after the last container; LLVM 22 refuses the whole section because of them."),
    "FP1004": ("error", "Containers are nested deeper than the limit; the inner ones were not read."),
    "FP1005": ("error", "Something was not read or listed because of a limit; the message names the limit."),
    "FP1006": (
        "warning",
        "This version does not read this kind of container or host; device code in it is not listed.",
    ),
    "FP1007": (
        "warning",
        "Zero bytes before an offload binary that shares its section; LLVM refuses the whole section because of them.",
    ),
    "FP1008": (
        "error",
        "This version cannot read a container, or cannot extract an image, though its bytes may be right; all others "
        "are listed and extracted.",
    ),
    "FP1009": (
        "note",
        "A plug-in could not be used, or failed; the result is the same as without the plug-in.",
    ),
    "FP1010": (
        "warning",
        "A section for offload binaries in an object has other content: clang-linker-wrapper refuses the object.",
    ),
    "FP1101": ("warning", "The stored image kind and the bytes of the image disagree."),
    "FP1102": ("warning", "The stored architecture and the one in the image itself disagree."),
    "FP1103": ("warning", "The stored triple and the machine in the image itself disagree."),
    "FP1104": ("error", "The image looks damaged: its own headers point past its end."),
    "FP1105": ("note", "The image does not start with the magic number of its stored kind."),
    "FP1106": (
        "warning",
        "An image contradicts itself: its header, its metadata or the data of its kernels disagree, or PTX is cut.",
    ),
    "FP1107": (
        "warning",
        "No kernels can be read of an image: its bytes are of no known form. Listings alone note it (FP1105).",
    ),
    "FP1111": (
        "warning",
        "The metadata file that a compiler wrote beside an image (Triton, Inductor) names another target.",
    ),
    "FP1112": ("warning", "The metadata file beside an image names a kernel that the image does not have."),
    "FP1113": (
        "warning",
        "The metadata file beside an image states a launch that its kernel does not allow: threads, warps, memory.",
    ),
    "FP1114": ("warning", "The metadata file beside an image cannot be read, so the two were not compared."),
    "FP1201": (
        "note",
        "The offload kind uses the numbering of LLVM 20 and older, or of DPC++; it is kept on rewriting.",
    ),
    "FP1202": (
        "note",
        "The container's size is not a multiple of 8: readers of LLVM 22 and newer disagree on the bytes after it.",
    ),
    "FP1203": ("warning", "Parts of the container overlap each other."),
    "FP1204": ("note", "A key occurs twice in one entry; LLVM uses the last."),
    "FP1205": ("note", "Bytes of the container that no field describes; they are kept on rewriting where possible."),
    "FP1206": ("note", "The container was written in big-endian byte order."),
    "FP1301": (
        "error",
        "An entry of a bundle is damaged: its image is outside the bundle. All other entries are listed.",
    ),
    "FP1302": ("error", "The table of entries of a bundle is damaged from here on; the entries before it are listed."),
    "FP1303": (
        "warning",
        "The stored size of a compressed bundle is wrong. LLVM ignores the field, the HIP runtime relies on it.",
    ),
    "FP1304": ("error", "The stored hash of a compressed bundle is not that of its content: one of them is damaged."),
    "FP1305": (
        "warning",
        "The stored decompressed size of a compressed bundle is wrong; LLVM refuses one that is too small.",
    ),
    "FP1306": ("warning", "Images of a bundle overlap each other."),
    "FP1307": ("warning", "Two entries of a bundle have the same ID; readers that search by ID find only one of them."),
    "FP1308": ("note", "Bytes of a bundle that belong to no entry; they are kept while its images are not changed."),
    "FP1309": (
        "note",
        "An empty entry lies past the end of its bundle, as LLVM 16 and older wrote it; LLVM 22 crashes on such files.",
    ),
    "FP1310": (
        "warning",
        "The table of entries of a HIP bundle is longer than the 4096 bytes that the HIP runtime reads.",
    ),
    "FP1311": ("error", "An entry of a text bundle has no END line; its text is taken up to the next one."),
    "FP1312": ("warning", "The END lines of a text bundle do not match its entries; LLVM splits it differently."),
    "FP1313": ("warning", "The lines of a text bundle end in CRLF, so that LLVM does not find its IDs."),
    "FP1314": (
        "warning",
        "A fat object was merged from several by ld -r, and images in it cannot be separated, or are too many to list.",
    ),
    "FP1315": ("note", "A bundle without an image for the host, which LLVM's tools accept of HIP bundles only."),
    "FP1501": ("error", "A CIR file is damaged from here on; the modules before it are listed."),
    "FP1502": ("error", "A CIR container breaks a rule of the CIR dialect, in the words of its verifier."),
    "FP1503": ("note", "A module of a CIR container has no bundle ID, so it cannot be split off by its target."),
    "FP1504": (
        "error",
        "Two modules of a CIR container have the same bundle ID; cir-offload-merge refuses to split it.",
    ),
    "FP1505": ("warning", "The bundle ID of a CIR module is one that cir-offload-merge refuses."),
    "FP1506": ("error", "Two modules of a CIR container have the same name, which MLIR refuses."),
    "FP1507": ("note", "A CIR container in a form of an older producer, which current clang does not read."),
    "FP1508": ("error", "A file with several CIR containers; only the first is listed, and none can be split."),
    "FP1509": ("note", "Device modules inside the host module, as AMD's representation has them: not a CIR container."),
    "FP1510": ("warning", "MLIR bytecode of a version that this version of fatpack does not know; it is only listed."),
    "FP1511": (
        "note",
        "A bundle ID has a processor in the place of the environment, so cir-offload-merge finds none.",
    ),
    "FP1512": ("warning", "A host module launches a kernel that a device module does not have."),
    "FP1513": ("warning", "A lowered host module does not register its GPU binary, or not all its kernels."),
    "FP1514": (
        "note",
        "A host module launches kernels and has no GPU binary yet, which is normal before the step that adds it.",
    ),
    "FP1515": (
        "warning",
        "A module of a CIR container states its role as in another form, or only by its name; clang refuses both.",
    ),
    "FP1516": (
        "warning",
        "A module of a CIR container states another role, target or kind of compilation than its entry.",
    ),
    "FP1401": (
        "error",
        "An entry of a fat binary is damaged: one of its sizes is wrong. It is listed if the other numbers agree, "
        "and so are the entries before and after it.",
    ),
    "FP1402": (
        "error",
        "The stored size of a fat binary or of its header is wrong: the file ends before it, another fat binary starts "
        "inside, or more entries follow; all entries that are there are listed.",
    ),
    "FP1403": (
        "error",
        "An image in a fat binary is empty, or not compressed as its entry states. It is listed, and copied unchanged.",
    ),
    "FP1404": (
        "note",
        "Bytes of a fat binary that belong to no entry; kept while its images are not changed.",
    ),
    "FP1405": (
        "warning",
        "The flags of an entry of a fat binary contradict its sizes or each other; readers may disagree on it.",
    ),
    "FP1406": ("error", "The identifier or the options of an entry of a fat binary lie outside of its header."),
    "FP1407": ("warning", "A fat binary, or an entry of one, is of an unknown kind or version; it is kept."),
    "FP1408": ("note", "An image in a fat binary is obfuscated by NVIDIA's tools: it is listed, and copied unchanged."),
    "FP1409": (
        "error",
        "The members of a group of a fat binary are not where it says; readable members are listed.",
    ),
    "FP1410": ("warning", "Zero bytes follow the last fat binary of a file; cuobjdump 13 refuses the file for them."),
    "FP1420": (
        "warning",
        "Parts of one program (sources, objects, members) are built for different architectures, or in other forms.",
    ),
    "FP1421": (
        "warning",
        "PTX was left out of a fat binary, and no remaining image runs on some of the GPUs that it was for.",
    ),
    "FP1601": (
        "error",
        "A kpack archive lacks the code object of an entry in its table. The others are listed.",
    ),
    "FP1602": ("error", "The frames of a kpack archive are damaged from here on; the code objects before are listed."),
    "FP1603": (
        "warning",
        "The table of contents of a kpack archive contradicts itself, or the archive.",
    ),
    "FP1604": ("note", "Bytes of a kpack archive that belong to nothing; a rewrite drops them."),
    "FP1605": (
        "warning",
        "The architectures that a kpack archive lists differ from those of its code objects, and the runtime selects "
        "archives by that list.",
    ),
    "FP1606": (
        "warning",
        "A manifest of kpack archives (.kpm) contradicts itself, or has an unknown version.",
    ),
    "FP1607": ("error", "A manifest of kpack archives (.kpm), or an entry of one, cannot be read."),
    "FP1701": ("error", "A package is damaged from here on; the files before the damage are listed."),
    "FP1702": (
        "warning",
        "The name of a file in a package would be unpacked outside of its folder: absolute, with `..`, `\\`, NUL.",
    ),
    "FP1703": ("warning", "Two files in a package have the same name; both are listed, and unpacking keeps the last."),
    "FP1704": ("error", "A package contradicts itself about a file, which is not read."),
    "FP1705": ("error", "Files in a package share bytes, as in a zip bomb; these files are not read."),
    "FP1706": ("warning", "Bytes of a package belong to none of the files in it."),
    "FP1707": ("note", "A link in a package leads out of it."),
    "FP1708": ("warning", "The name of a file in a package goes through a link that leads out of it."),
    "FP1709": ("warning", "An entry of a package is not a file, a folder or a link, and is not read."),
    "FP1710": ("error", "A file in a package cannot be read: it is damaged. All others are listed."),
    "FP1711": (
        "note",
        "A layer of a container image removes files of the layers below it; these files are listed.",
    ),
    "FP1712": ("note", "A tar archive ends without its end mark: it may have been truncated between two files."),
    "FP1801": (
        "error",
        "An image of a SYCLBIN file is not where its tables say, or its metadata is longer than it; the others are "
        "listed.",
    ),
    "FP1802": ("warning", "A line of the property sets of a SYCLBIN file is not a property; DPC++ refuses the file."),
    "FP1803": (
        "warning",
        "The modules, roles or states of a SYCLBIN file contradict each other; the message has the details. Its images "
        "are listed.",
    ),
    "FP1804": ("note", "Bytes of a SYCLBIN file that belong to no part; a rewrite drops them."),
    "FP1805": (
        "warning",
        "A SYCLBIN file contradicts itself about an image: DPC++ reads its metadata, other tools the strings of the "
        "entry.",
    ),
    "FP1901": ("error", "The stream of an AKS2 archive ends early or is damaged; whole images before that are listed."),
    "FP1902": ("error", "An AKS2 archive states another size than its stream has."),
    "FP1903": ("error", "An image of an AKS2 archive is not where its directory says; the others are listed."),
    "FP1904": ("warning", "Two entries of an AKS2 archive have the same key; AOTriton uses the first."),
    "FP1905": ("warning", "Images of an AKS2 archive overlap each other."),
    "FP1906": ("note", "Bytes of an AKS2 archive that belong to no image; a rewrite drops them."),
    "FP1907": (
        "warning",
        "An image of an AKS2 archive is for another target than the name of its folder or file says.",
    ),
    "FP1908": (
        "warning",
        "Members of a zip archive of AKS2 archives are compressed; AOTriton refuses an archive with any such member.",
    ),
    "FP1316": ("warning", "The sizes that a fat object records for merged images do not add up to the section's size."),
    "FP2001": (
        "warning",
        "A section with the name of device code has the wrong section type: LLVM tools ignore it.",
    ),
    "FP2002": ("error", "A section that should hold device code lies outside the file."),
    "FP2003": ("warning", "A section is named as device code, and its content has no known format."),
    "FP2101": (
        "error",
        "A member header of an archive is damaged; the members before it are listed, and later ones whose headers can "
        "be found.",
    ),
    "FP2102": (
        "warning",
        "The name of an archive member cannot be read; the member is listed as its header spells it.",
    ),
    "FP2103": ("error", "A thin archive names a file that is missing or cannot be read."),
    "FP2104": ("warning", "A thin archive names a file outside its own directory, which is not opened."),
    "FP2105": ("warning", "A file named by a thin archive has another size now than when the archive was made."),
    "FP2106": ("warning", "A thin archive names a file that is not followed: listed already, or nested too deeply."),
    "FP2107": (
        "warning",
        "An entry of an archive's symbol table points to no member, or to one without the symbol; links fail.",
    ),
    "FP2201": ("error", "A section that should hold device code lies outside the COFF object."),
    "FP2202": ("error", "A section name of a COFF object cannot be read, so device code may be missed."),
    "FP2203": ("error", "The section table of a COFF object is truncated; the sections before the cut are listed."),
    "FP2301": ("error", "A section that should hold device code lies outside the PE image."),
    "FP2302": ("note", "A section of a PE image is named as device code, and its content has no known format."),
    "FP2303": ("error", "The section table of a PE image is truncated; the sections before the cut are listed."),
    "FP2401": ("error", "The bitstream is damaged from here on; device code before it is listed."),
    "FP2402": ("warning", "A global in a section of device code is not initialised with bytes, so there is no data."),
    "FP2501": ("error", "A section that should hold device code lies outside the Mach-O file."),
    "FP2502": (
        "error",
        "The load commands of a Mach-O file are damaged or truncated; the sections before the damage are listed.",
    ),
    "FP2503": (
        "note",
        "A section has the name of device code and no bytes in the file, as in debug symbols (dSYM).",
    ),
    "FP2511": ("error", "A slice of a universal Mach-O file ends after the file; the present part is listed."),
    "FP2512": (
        "error",
        "The table of a universal Mach-O file is empty or truncated; the slices before the cut are listed.",
    ),
    "FP2513": ("error", "A slice of a universal Mach-O file overlaps its table or another slice, and is not read."),
    "FP2601": (
        "error",
        "A function of a Metal library is damaged: its group or its bitcode is outside of the library. The others are "
        "listed.",
    ),
    "FP2602": (
        "error",
        "The bitcode of a function of a Metal library does not have its stored hash; Metal refuses to load it.",
    ),
    "FP2603": ("warning", "Two functions of a Metal library have one name; Metal finds one of them."),
    "FP2604": (
        "warning",
        "A part of a Metal library beside its functions is damaged and was not read; the functions are listed.",
    ),
    "FP2605": (
        "warning",
        "Functions of a Metal library are in a later version of the language than the system that the library says "
        "it needs: they fail to load there.",
    ),
    "FP2606": ("note", "A Metal library has paths of the machine that built it."),
    "FP2607": (
        "warning",
        "A function of a Metal library has its stored hash, and does not begin with the wrapper of bitcode.",
    ),
    "FP2701": (
        "note",
        "An object has bytecode of GCC for accelerators (GIMPLE); the target is chosen when it is linked.",
    ),
    "FP2702": (
        "warning",
        "A program has target regions of GCC's offloading and registers no image: all of them run on the host. It was "
        "linked with -foffload=disable, or without GCC's linker plug-in.",
    ),
    "FP2703": ("note", "A program registers target regions of GCC's offloading with libgomp."),
    "FP2704": (
        "error",
        "A record of GCC's offloading has another number of kernels or variables than the host's table: libgomp stops "
        '("Cannot map target functions or variables").',
    ),
    "FP2705": (
        "error",
        "Records of GCC's offloading for two accelerators have different numbers of kernels: libgomp stops on one of "
        "them.",
    ),
    "FP2706": (
        "note",
        "GCC's offloading compiled for gfx803, its default without -march up to GCC 12; current ROCm does not support "
        "such devices.",
    ),
    "FP2707": (
        "warning",
        "A record of GCC's offloading has a library version above those that were tried; the libgomp of an older GCC "
        'stops ("Library too old for offload").',
    ),
    "FP2708": (
        "error",
        "A record of GCC's offloading is damaged, or was not found although the program registers one: its images are "
        "not listed.",
    ),
    "FP3001": (
        "warning",
        "A record by which HIP code registers its bundle is wrong: its magic or its version, or it is truncated.",
    ),
    "FP3002": ("warning", "A HIP bundle without a record: the runtime does not load it, nor find its kernels."),
    "FP3003": ("warning", "A record by which HIP code registers its bundle does not point to a bundle."),
    "FP3004": ("note", "The device code of a HIP program was moved to a separate archive (kpack)."),
    "FP3005": (
        "error",
        "A HIP program whose device code was moved does not state the new place in a way that the runtime can read.",
    ),
    "FP3011": ("warning", "The table of a SYCL program's images has rows that point to no image."),
    "FP3012": (
        "warning",
        "The table of a SYCL program's images has another size for an image than the image itself or its section.",
    ),
    "FP3013": (
        "warning",
        "The table of a SYCL program's images is missing or lacks a section, which is listed as a whole.",
    ),
    "FP3014": ("error", "A compressed image of a SYCL program is damaged; it is listed as stored."),
    "FP3021": (
        "warning",
        "A file has device code of two kinds: in sections of clang-offload-bundler, and in .llvm.offloading.",
    ),
    "FP3031": (
        "warning",
        "A record by which CUDA code registers its fat binary is wrong: its magic or its version, or it is truncated.",
    ),
    "FP3032": (
        "warning",
        "A CUDA fat binary without a record: the runtime does not load it, nor find its kernels.",
    ),
    "FP3033": ("warning", "A record by which CUDA code registers its fat binary does not point to one."),
    "FP3034": ("note", "A record registers a cubin without a fat binary; not every CUDA runtime accepts it."),
    "FP3041": (
        "warning",
        "A host file launches kernels of CUDA or HIP, and nothing in it registers them. In an object this may be "
        "intended: a source compiled for the host alone looks the same.",
    ),
    "FP3042": (
        "warning",
        "A constructor registers device code, but no kernel of it: every launch fails.",
    ),
    "FP3043": ("warning", "The function that registers device code is called by no constructor."),
    "FP3044": (
        "warning",
        "The function that registers some kernels is called by no constructor, though others are registered.",
    ),
    "FP3045": ("warning", "A kernel is launched but not registered, though others of the file are."),
    "FP3046": ("warning", "A kernel is registered under a name that no image has, so that launching it fails."),
    "FP3047": (
        "warning",
        "A program has offload entries that no code reads, and kernels that are registered by calls.",
    ),
    "FP3048": ("warning", "Two kernels are registered with one address: the linker folded their stubs."),
    "FP3049": (
        "warning",
        "A program has offload entries and no code to register them: it was linked without clang-linker-wrapper, or "
        "without the archive that has it. A linked program does not name its archives.",
    ),
    "FP3050": ("warning", "Regions of OpenMP are launched, but none has an offload entry."),
    "FP3051": ("warning", "A program refers to a HIP bundle that no file of the link had."),
    "FP3052": ("note", "Images have kernels that nothing in their host file registers."),
    "FP3053": ("warning", "Records or descriptors point to device code, and no register function is called with them."),
    "FP3054": ("note", "A kernel is registered that the images for some architectures lack, though others have it."),
    "FP3056": ("warning", "The table of offload entries of a host file is damaged."),
    "FP3057": (
        "warning",
        "A register function is called with an address at which there is no device code, nor a record of it.",
    ),
    "FP3058": ("warning", "A record of device code is registered more than once."),
    "FP3059": ("warning", "A variable that host code and images both have is not registered, though kernels are."),
    "FP3060": (
        "warning",
        "A kernel is launched that exists only in host code: a template that device code does not instantiate.",
    ),
    "FP3061": ("note", "A registered container has no image for any device: its kernels, if it has any, do not run."),
    "FP3101": ("warning", "The folder in which a program looks for its kpack archives does not exist."),
    "FP3102": ("warning", "No kpack archive has the name that a program looks for, whatever the device."),
    "FP3103": ("warning", "A program finds kpack archives, but none for a device."),
    "FP3104": ("warning", "The kpack archives that a program finds for a device lack some of its code objects."),
    "FP3105": (
        "warning",
        "A program's code is in a kpack archive that loaders of ROCm before rocm-systems#9874 do not read: they use "
        "the first archive that lists the device.",
    ),
    "FP3106": ("warning", "A program looks for kpack archives outside of the folder that is checked."),
    "FP3107": (
        "warning",
        "A code object is for another processor, or other features, than its kpack archive lists.",
    ),
    "FP3108": ("warning", "A manifest (.kpm) does not describe the kpack archives beside it."),
    "FP3109": ("error", "A file or folder that should be checked cannot be read."),
    "FP3110": ("warning", "There is nothing to check: no program in the folder looks for kpack archives."),
    "FP3201": ("warning", "A later stage of a unit has no device code for an architecture of an earlier one."),
    "FP3202": ("warning", "A later stage of a unit lacks kernels that an earlier one has for an architecture."),
    "FP3203": ("warning", "A later stage of a unit does not register kernels that an earlier one has or launches."),
    "FP3204": ("warning", "A later stage of a unit has no device code at all, but an earlier one has."),
    "FP3205": (
        "note",
        "Some facts of a unit's stages could not be compared; the message has the facts and the reason.",
    ),
    "FP3206": (
        "warning",
        "Files cannot be compared as stages of a unit: one is not a stage, or all are the same stage.",
    ),
    "FP3301": ("error", "An input of a policy cannot be read, so the policy cannot be checked completely."),
    "FP3302": ("error", "A policy requires device code, and the inputs have none."),
    "FP3303": ("error", "No image in a unit of device code runs on a device that a policy requires."),
    "FP3304": ("error", "No image is for the one architecture that a policy requires by its exact name."),
    "FP3305": ("error", "It is unknown if a unit of device code runs on a device that a policy requires."),
    "FP3306": ("error", "There is device code for an architecture that a policy forbids."),
    "FP3307": ("error", "A file or folder is larger than a policy allows."),
    "FP3308": ("error", "A file or folder grew by more than a policy allows."),
    "FP3309": ("error", "Kernels of a library lack an architecture that other kernels of it have."),
    "FP3310": ("note", "The registrations of a program could not be followed completely; verdicts are about the rest."),
    "FP3311": ("error", "A package declares a device or a version of CUDA, and its contents do not run there."),
    "FP3312": ("note", "A package has device code for an architecture that it does not declare."),
    "FP3313": ("error", "The declarations of packages should be checked, but no package declares anything."),
    "FP3314": ("error", "An image contradicts the form or the target that its container states."),
    "FP3315": ("error", "A file of a wheel differs from its line in RECORD, or only one of the two exists."),
    "FP3316": ("note", "Something of images was not verified, as bytes without a stored hash; the message says why."),
    "FP3317": (
        "note",
        "A file has a name of device code and an unsupported format: the policy was not checked for it.",
    ),
    "FP3318": (
        "note",
        "A compiler reads the file, and no driver: a library of device functions, such as libdevice.10.bc.",
    ),
    "FP3340": (
        "error",
        "A file is of a kind that carries device code, or any files, and is not read; a policy may allow its kind.",
    ),
    "FP3342": ("error", "A Metal library does not load on a system that a policy requires, or none is for it."),
    "FP3343": ("error", "A Metal library does not load on the oldest system for which installers take its wheel."),
    "FP3341": ("note", "A file of a kind that is not read was left out of a check, as its policy allows."),
    "FP3330": (
        "error",
        "Installers refuse a wheel for the description of its variant, or take it for another variant.",
    ),
    "FP3331": ("error", "The wheels and the index file of a release describe its variants differently."),
    "FP3332": ("error", "Installers take a package for a device or a driver with which its code does not run."),
    "FP3333": ("error", "No installer takes a variant, because no provider lists any value that one feature asks for."),
    "FP3334": ("note", "No provider lists a value of a variant, or an installer lacks the provider."),
    "FP3335": ("note", "Code in a package runs on devices for which installers never take it."),
    "FP3336": ("note", "No index file lies beside wheels with variants, and installers read variants from it."),
    "FP3337": ("warning", "Code in a conda package needs a newer driver than the package asks for."),
    "FP3338": ("error", "The file name of a conda package is not the name, version and build that it states."),
    "FP3319": ("note", "A declaration in the metadata of a package, which its contents were compared with."),
    "FP3320": ("warning", "A conda package does not follow the advice of CEP 46 about the device code to build."),
    "FP3321": ("note", "It is not known if a package runs on a device that its metadata admits."),
    "FP3322": ("note", "Only a part of a package's device code runs on a device that its metadata admits."),
    "FP3323": ("error", "A kernel certainly does nothing on one architecture, and something on another."),
    "FP3324": ("note", "A kernel has a few instructions on one architecture, and thousands of bytes on another."),
    "FP3350": ("note", "Kernels of a file do nothing on one architecture, and something on another."),
    "FP3351": (
        "warning",
        "A compressed image has a time or a temporary name that `normalize` cannot change in its place.",
    ),
    "FP3352": ("note", "`normalize` does not look for temporary names in the symbols of this kind of file."),
    "FP2801": ("note", "A database of SQLite, which is not read; libraries of ROCm keep compiled kernels in some."),
    "FP2802": ("error", "A row of a kernel cache (MIOpen, rocFFT) cannot be read; the other rows are listed."),
    "FP2803": ("warning", "Kernels of a cache are for another processor than the name of its file says."),
    "FP2804": ("error", "A kernel in MIOpen's database has another MD5 than its row states; MIOpen refuses it."),
    "FP2805": ("warning", "A kernel cache has kernels of several versions of HIP; a library uses those of its own."),
    "FP2806": ("warning", "A write-ahead log beside a database was not read."),
    "FP2807": ("note", "A kernel cache never decides if a device is served: a library compiles what its cache lacks."),
    "FP3401": ("warning", "A table of Tensile (rocBLAS, hipBLASLt) names a table that is not there."),
    "FP3402": ("warning", "A table of Tensile has no code: neither the .co nor the .hsaco file of it is there."),
    "FP3403": (
        "warning",
        "The helper kernels of a library of Tensile are missing for a target; loading the library returns an error.",
    ),
    "FP3404": (
        "warning",
        "A code file of a library of Tensile has no code for the target in its name, so the device does not load it.",
    ),
    "FP3405": ("note", "No table of a library of Tensile names a file of it: nothing loads what is in the file."),
    "FP3406": ("warning", "A library of Tensile has code for a target and no parent table, so nothing loads it."),
    "FP3407": (
        "warning",
        "A library of Tensile has code for a target in its folder and in one of the target; only the latter is read.",
    ),
    "FP3408": ("error", "A parent table of a library of Tensile cannot be read."),
    "FP3409": ("note", "The files of a library of Tensile were not compared with its tables: they are in YAML."),
    "FP3410": ("warning", "A parent table of hipBLASLt has no mapping beside it."),
    "FP3601": ("warning", "A container that is read and written again differs from the original bytes."),
    "FP3602": ("warning", "Bytes of a file are described twice or not at all, so its structure is in doubt."),
    "FP3603": (
        "error",
        "A file of a package, or a part of it, has another digest or size than the package states (RECORD of a wheel, "
        "md5sums of a Debian package, paths.json of a conda package, headers of an RPM package).",
    ),
    "FP3604": (
        "warning",
        "The list of files in a package (RECORD, md5sums, paths.json) and its files do not match, or the list cannot "
        "be read.",
    ),
    "FP3605": (
        "warning",
        "The loaded sections of an object are larger than 32-bit relocations reach; linking fails with `relocation "
        "truncated to fit`.",
    ),
    "FP3606": (
        "note",
        "Device code takes so much of the reach of 32-bit relocations that linking may soon fail with `relocation "
        "truncated to fit`.",
    ),
    "FP3607": (
        "warning",
        "The name of a file is that of a package or of device code, but its bytes are neither.",
    ),
    "FP3608": ("warning", "Nothing of an installed package with device code runs on a GPU of the machine."),
}


def finding(code: str, span: Span, message: str, hint: str = "", *, field: str = "") -> Finding:
    """Return a finding with the severity of its code; very long names in its text are cut."""
    return Finding(code, CODES[code][0], span, truncate_words(message), truncate_words(hint), field)


def format_finding(item: Finding, path: str) -> str:
    """Return a finding in a file as one line with its hint: ``FP1401 at 0x18: entry[0].padded_size: …``.

    The offset is that in the file, and left out inside compressed data; the names that lead to the place follow.
    """
    offset = item.span.start if is_in_file(item.span.source) else None
    at = "" if offset is None else f" at {offset:#x}"
    return f"{item.code}{at}{location_words(item.span.source, path)}: {without_offset(item.text, offset)}"


def location_words(chain: Sequence[str], path: str) -> str:
    """Return the place in a file that a chain of names describes, `` (a.o → .llvm.offloading)``; "" for the file."""
    outermost = chain[0] if chain else ""
    member = outermost[len(path) + 1 : -1] if path and outermost.startswith(f"{path}(") else ""
    names = [*([member] if member else []), *map(truncate_words, chain[1:])]
    return f" ({' → '.join(names)})" if names else ""


def message_from_text(text: str) -> str:
    """Return the message in a line of :func:`format_finding`."""
    return text.partition(": ")[2]


def without_offset(message: str, offset: int | None) -> str:
    """Return a message without the offset of the finding, which is shown before it already."""
    if offset is None:
        return message
    before, _, after = message.partition(f" at {offset:#x}")
    return message if after[:1].isalnum() else before + after


def code_for_error(damage: str, error: Exception) -> str:
    """Return the code for an error: ``damage``, or that of limits, because reaching a limit is no damage."""
    return "FP1005" if isinstance(error, LimitExceeded) else damage


#: codes that are listed once per file, and counted: they are equal for all images, and libraries have thousands
ONCE = ("FP1408",)


class FindingTally:
    """Findings one by one up to ``most`` of each code; the others are only counted, so that memory is bounded."""

    __slots__ = ("_kept", "_more", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[str, int] = {}
        #: code → the first finding that was only counted, and the number of these
        self._more: dict[str, tuple[Finding, int]] = {}

    def keeps(self, item: Finding) -> bool:
        """Return whether a finding is to be listed; otherwise it is counted."""
        kept = self._kept.get(item.code, 0)
        if kept < (1 if item.code in ONCE else self._most):
            self._kept[item.code] = kept + 1
            return True
        more = self._more.get(item.code)
        self._more[item.code] = (item, item.count) if more is None else (more[0], more[1] + item.count)
        return False

    def rest(self) -> list[Finding]:
        """Return one finding for each code with counted ones: the first of those, with their number."""
        return [item.replace(count=count) for item, count in self._more.values()]
