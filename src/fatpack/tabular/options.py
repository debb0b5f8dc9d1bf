"""What rows are of, and how much is read for them."""

from __future__ import annotations

from fatpack.record import Record


class RowOptions(Record):
    """What rows are of (``images`` or ``kernels``), and how much is read for them.

    ``digests`` fills ``sha256`` of images and ``code_sha256`` of kernels, ``kernels`` fills ``kernel_count`` and
    ``registers_max``; both read every image whole, and so do rows of kernels. With ``each_kernel`` the row of an image
    is followed by the rows of its kernels, which ``count`` does not count. ``inflate`` looks into compressed images, to
    recognise what they are; ``heads`` compares their first bytes with what is stored about them, for which containers
    that are compressed as a whole are inflated. ``deep`` searches everything, and ``thorough`` all of a file
    in which nothing was found. ``positions`` are those of the images that get rows, None for
    all; "" stands for images in no container. ``kernel`` is a regular expression: ``has_kernel`` says which images have
    a kernel with such a name. ``digest_sizes`` are the sizes of the images that get ``sha256``, None for all.
    """

    of: str = "images"
    digests: bool = False
    kernels: bool = False
    inflate: bool = False
    deep: bool = False
    thorough: bool = False
    each_kernel: bool = False
    positions: frozenset[str] | None = None
    kernel: str = ""
    heads: bool = False
    digest_sizes: frozenset[int] | None = None

    @property
    def reads_kernels(self) -> bool:
        """Whether the kernels of images are read."""
        return self.kernels or self.each_kernel or bool(self.kernel) or self.of == "kernels"

    @property
    def reads_images(self) -> bool:
        """Whether images are read, not only what their containers state of them."""
        return self.inflate or self.reads_content

    @property
    def reads_content(self) -> bool:
        """Whether the bytes of images that were recognised are read."""
        return self.digests or self.reads_kernels
