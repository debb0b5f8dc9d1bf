"""Which image a device's runtime takes from one container, and what happens where none fits. One module per runtime.

============  =====================================================================================
``answer``     what is asked (``Candidate``) and what comes out (``Answer``)
``cuda``       the CUDA driver: one registered fat binary
``hip``        the HIP runtime: one bundle
``kpack``      the HIP runtime, where code was moved to archives: which archive it comes from
``openmp``     LLVM's offload plugins: the images of one descriptor
``sycl``       the adapters of SYCL's runtime: the images of one program
``settings``   what is known of the machine: versions, and variables of the environment
``drivers``    which CUDA version a driver of NVIDIA has
``asking``     one question for them all: whether it runs, also where the rules are not certain
``rules``      what each rule says, with its source, and the errors of runtimes
============  =====================================================================================

Each answer names its rule, ``C2`` or ``H3``. A rule that nobody has documented or observed makes an answer that is not
certain. A program has a container per source file or per link, and each is chosen from alone: it runs only if every
one of them that it uses has an image.
"""
