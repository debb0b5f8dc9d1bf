"""Select the image that a device's runtime loads from one container, and the error if none fits.

====================  =====================================================================================
``select_image``      one function for all runtimes: the selected image, and if it runs, also if rules are ambiguous
``model``             input (``CandidateImage``) and output (``SelectionResult``) of the rules
``cuda``              the CUDA driver: one registered fat binary
``amd``               the HIP runtime: one bundle, or the kpack archives to which code was moved
``sycl_openmp``       LLVM's offload plugins (images of one descriptor), SYCL's adapters (images of one program), and
                      GCC's libgomp (one record)
``runtime_settings``  versions and environment variables that a runtime reads
``rules``             the rules with their sources, and the errors of runtimes
``drivers``           branches of NVIDIA's drivers, and their CUDA versions
``dead``              the images of a container that no device with any driver takes
====================  =====================================================================================

Each answer has the name of its rule, ``C2`` or ``H3``. Without a document or an observation, the answer is not certain.
A program has a container per source file or per link, and the runtime selects from each separately: the program runs
only if every container that it uses has an image.
"""
