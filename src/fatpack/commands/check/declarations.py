"""Declarations of architectures in the metadata of packages, read with bounds: each source as claims of one kind."""

from __future__ import annotations

import base64
import re

from fatpack.errors import pluralize
from fatpack.model import arch_name
from fatpack.packages.wheel_names import normalize_project
from fatpack.record import Record
from fatpack.targets.installers import conda, hugging_face
from fatpack.targets.installers.variant_documents import InvalidVariants, parse_json
from fatpack.targets.nvidia import parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    from fatpack.targets.installers.conda import AdmittedDevices

    DeclarationReader: TypeAlias = "Callable[[bytes], MetadataDeclaration]"


# The content of a declaration in any of its formats, and bounded reading of its files.

#: LIMIT: bytes of a file that declares; the largest METADATA of known wheels, with its description, have 200 kB.
MAX_DECLARATION_SIZE = 4 << 20

#: LIMIT: claims of one declaration
MAX_CLAIMS = 1000

#: LIMIT: characters of a value, which messages repeat
_LONGEST = 64


class UnreadableDeclaration(Exception):
    """A declaration that cannot be read, and why, in words."""


class MetadataClaim(Record):
    """One thing that is declared.

    ``kind`` is ``image`` (something serves the device ``arch``), ``ptx`` (so does PTX for it, and for later ones),
    ``devices`` (all those that a conda package admits, of which ``arch`` is the lowest), ``cuda`` (``version`` of CUDA
    whose driver is enough). ``text`` is what the file says.
    """

    kind: str
    vendor: str
    arch: str
    text: str
    version: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The architecture that the claim names, ``compute_90`` for PTX."""
        return arch_name(self.arch, self.kind)


class MetadataDeclaration(Record):
    """The architectures that one file declares in one way, its ``source``.

    ``lists`` are the vendors of whose images all are listed: what there is besides is not declared. ``admitted`` are
    the devices on which conda installs a package, ``driver`` the CUDA version of the oldest driver, None if it asks for
    none. ``loaded`` are the architectures of CUDA by which the loader of Hugging Face accepts a kernel for a device.
    Without claims the file declares nothing.
    """

    source: str
    claims: tuple[MetadataClaim, ...]
    lists: tuple[str, ...] = ()
    admitted: AdmittedDevices | None = None
    driver: tuple[int, int] | None = None
    loaded: tuple[str, ...] = ()


def unique_claims(claims: Iterator[MetadataClaim]) -> tuple[MetadataClaim, ...]:
    """Return claims, each once. Raises UnreadableDeclaration for too many."""
    found: dict[MetadataClaim, None] = {}
    for claim in claims:
        found[claim] = None
        if len(found) > MAX_CLAIMS:
            raise UnreadableDeclaration(f"it makes more than {MAX_CLAIMS} claims")
    return tuple(found)


def truncate(value: object) -> str:
    """Return a value for a message, cut where it is long."""
    text = value if isinstance(value, str) else type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def parse_json_object(data: bytes) -> dict[str, Any]:
    """Return the object that JSON is. Raises UnreadableDeclaration."""
    import json

    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableDeclaration(f"it is no JSON: {truncate(text)}") from None
    return require_object(value, "it")


def require_object(value: object, what: str) -> dict[str, Any]:
    """Return a value that must be an object. Raises UnreadableDeclaration."""
    if not isinstance(value, dict):
        raise UnreadableDeclaration(f"{what} is no object")
    return value


def require_strings(value: object, what: str) -> list[str]:
    """Return a value that must be a list of texts. Raises UnreadableDeclaration."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnreadableDeclaration(f"{what} is no list of texts")
    return value


def header_fields(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the fields before the first empty line, names in lower case: RFC 822, as METADATA and control have it.

    Raises UnreadableDeclaration for bytes that are no UTF-8, and for lines that are no field.
    """
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise UnreadableDeclaration("it is no UTF-8") from None
    name, values = "", list[str]()
    for line in lines:
        if not line.strip():
            break
        if line[0] in " \t":
            if not name:
                raise UnreadableDeclaration("its first line belongs to no field")
            values.append(line.strip())
            continue
        if name:
            yield name, " ".join(values)
        name, colon, value = line.partition(":")
        if not colon:
            raise UnreadableDeclaration(f"{truncate(line)!r} is no field")
        name, values = name.strip().lower(), [value.strip()]
    if name:
        yield name, " ".join(values)


def parse_declared_version(text: str) -> tuple[int, ...] | None:
    """Return the numbers of ``12`` or ``12.4``; None for what is neither."""
    parts = text.split(".")
    if len(text) > 12 or len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    return tuple(int(part) for part in parts)


# Classifiers of wheels: ``Environment :: GPU :: NVIDIA CUDA :: 12 :: 12.4``.
#
# Source: trove-classifiers. The last part is a version; ``NVIDIA CUDA`` alone means any version.

_CUDA = "Environment :: GPU :: NVIDIA CUDA"


def classifier_declaration(data: bytes) -> MetadataDeclaration:
    """Return what METADATA declares by classifiers: the highest version that it names. Raises UnreadableDeclaration."""
    claims = unique_claims(_classifier_claims(data))
    return MetadataDeclaration("Classifier", (max(claims, key=lambda claim: claim.version[:1]),) if claims else ())


def _classifier_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        if name != "classifier" or not value.startswith(_CUDA):
            continue
        last = value.rpartition("::")[2].strip()
        numbers = () if value == _CUDA else parse_declared_version(last)
        if numbers is None:
            raise UnreadableDeclaration(f"{truncate(value)!r} has no version")
        # Minor versions of one CUDA are compatible with each other, so that only the first number tells.
        yield MetadataClaim("cuda", "nvidia", "", f"CUDA {last}" if numbers else "CUDA", numbers[:1])


# ``info/index.json`` of a conda package: the devices that may have it, as ``cuda-arch >=8.0``.
#
# Source: CEP 46, and conda-forge's metapackage; :mod:`fatpack.targets.installers.conda` has the rules.

_INDEX = "index.json"


def conda_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises UnreadableDeclaration."""
    index = parse_json_object(data)
    try:
        package = conda.read_conda_index(index)
        driver = conda.oldest_driver(index)
    except conda.UnreadableSpec as error:
        raise UnreadableDeclaration(str(error)) from None
    text = ", ".join(spec.text for spec in package.asks)
    if not text:
        return MetadataDeclaration(_INDEX, ())
    admitted = conda.admitted_devices(package)
    if not admitted.capabilities or admitted.capabilities[0] == conda.LOWEST:
        what = "no lowest compute capability" if admitted.capabilities else "no device that is known"
        raise UnreadableDeclaration(f"{truncate(text)!r} lets in {what}")
    major, minor = admitted.capabilities[0]
    claim = MetadataClaim("devices", "nvidia", f"sm_{major}{minor}", truncate(text))
    return MetadataDeclaration(_INDEX, (claim,), admitted=admitted, driver=driver)


def conda_identity(data: bytes) -> str:
    """Return name, version and build as the file states them, joined as in the package's file name; "" if not all."""
    index = parse_json_object(data)
    facts = [index.get(key) for key in ("name", "version", "build")]
    return "-".join(map(str, facts)) if all(isinstance(fact, str) and fact for fact in facts) else ""


# ``metadata.json`` in the folder of a kernel of Hugging Face, beside its libraries: ``backend`` with ``archs``.
#
# Source: huggingface/kernels; :mod:`fatpack.targets.installers.hugging_face` has the rules. Other files have that name.

KERNEL_METADATA = "metadata.json"


def kernel_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares: nothing, if it is about no kernel. Raises UnreadableDeclaration."""
    import json

    try:
        backend = json.loads(data).get("backend")
    except (ValueError, RecursionError, AttributeError):
        return MetadataDeclaration(KERNEL_METADATA, ())
    if not isinstance(backend, dict) or backend.get("type") not in hugging_face.COMPARED_BACKENDS:
        return MetadataDeclaration(KERNEL_METADATA, ())
    archs = tuple(require_strings(backend.get("archs", []), "backend: archs"))
    if backend["type"] == "rocm":
        claims = unique_claims(MetadataClaim("image", "amd", arch, truncate(arch)) for arch in archs)
        return MetadataDeclaration(KERNEL_METADATA, claims, ("amd",))
    return MetadataDeclaration(KERNEL_METADATA, unique_claims(_kernel_claims(archs)), ("nvidia",), loaded=archs)


def kernel_digests(data: bytes) -> dict[str, str]:
    """Return the SHA-256 of each file of a kernel, in hexadecimal, by its path in the folder; {} where none is stated.

    Raises UnreadableDeclaration for a digest that is none.
    """
    digest = parse_json_object(data).get("digest")
    if not isinstance(digest, dict) or digest.get("algorithm") != "sha256":
        return {}
    found = {}
    for name, text in require_object(digest.get("files", {}), "digest: files").items():
        try:
            found[name] = base64.b64decode(str(text), validate=True).hex()
        except ValueError:
            raise UnreadableDeclaration(f"digest: files has no digest of {truncate(name)!r}") from None
    return found


def _kernel_claims(archs: tuple[str, ...]) -> Iterator[MetadataClaim]:
    for text in archs:
        found = hugging_face.parse_capability(text)
        if found is None:
            raise UnreadableDeclaration(f"backend: archs has {truncate(text)!r}, which is no architecture")
        yield MetadataClaim("image", "nvidia", found.arch, text)
        if found.has_ptx:
            yield MetadataClaim("ptx", "nvidia", found.arch, text)


# The control file of a Debian package: ``X-ROCm-GPU-Architecture: gfx900 gfx90a gfx1030``.
#
# Source: Debian's ROCm team (pkg-rocm-tools, rocm-target-arch(1), which also reads the field).

DEBIAN_FIELD = "X-ROCm-GPU-Architecture"


def debian_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises UnreadableDeclaration."""
    return MetadataDeclaration(DEBIAN_FIELD, unique_claims(_debian_claims(data)), ("amd",))


def _debian_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        for word in value.replace(",", " ").split() if name == DEBIAN_FIELD.lower() else ():
            if not word.startswith("gfx"):
                raise UnreadableDeclaration(f"{DEBIAN_FIELD} has {truncate(word)!r}, which is no architecture")
            yield MetadataClaim("image", "amd", word, truncate(word))


# Extras of wheels whose device code lies in kpack archives of other wheels, one for each architecture.
#
# ::
#
#     Provides-Extra: device-gfx942
#     Requires-Dist: amd-torch-device-gfx942 == 2.10.0; extra == "device-gfx942"
#
# Source: TheRock (ROCm), which splits wheels so; older drafts of it have ``gfx942`` alone. The other wheels are
# looked for among the packages that are checked: nothing is fetched.

_EXTRA = re.compile(r"(?:device-)?(gfx[0-9a-f]{2,6})")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MARKER = re.compile(r"""extra\s{0,9}==\s{0,9}["']([^"']{1,64})["']""")


def extras_declaration(data: bytes) -> MetadataDeclaration:
    """Return what METADATA declares by extras. Raises UnreadableDeclaration."""
    return MetadataDeclaration("Provides-Extra", unique_claims(_extras_claims(data)), ("amd",))


def _extras_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        found = _EXTRA.fullmatch(value) if name == "provides-extra" else None
        if found is not None:
            yield MetadataClaim("image", "amd", found[1], truncate(value))


def required_distributions(data: bytes) -> tuple[str, ...]:
    """Return the distributions that METADATA requires for architectures of AMD. Raises UnreadableDeclaration."""
    found = dict[str, None]()
    for name, value in header_fields(data):
        if name != "requires-dist":
            continue
        marker = value.partition(";")[2]
        is_for_device = any(map(_EXTRA.fullmatch, _MARKER.findall(marker))) or "gfx_arch" in marker
        required = _NAME.match(value)
        if is_for_device and required is not None:
            found[normalize_project(required[0])] = None
    return tuple(found)


# ``variant.json`` of a wheel: what its variant is for.
#
# ::
#
#     {"variants": {"cu128": {"nvidia": {"sm_arch": ["90_real", "120_virtual"], "cuda_version_lower_bound": ["12.8"]}}}}
#
# Architectures are those of CMake: ``90_real`` is code for it, ``90_virtual`` PTX, ``90`` both. AMD's are target IDs.
#
# Source: PEP 825 (draft of 2026) and PEP 817 for the file; the properties are those of nvidia-variant-provider and
# of ROCm's provider (TheRock, rocm-bootstrap): ``amd :: gfx_arch :: gfx942``.

#: the file, as declarations name their source
VARIANT = "variant.json"


def variant_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises UnreadableDeclaration."""
    try:
        document = require_object(parse_json(data), "it")
    except InvalidVariants as error:
        raise UnreadableDeclaration(str(error)) from None
    variants = require_object(document.get("variants"), "variants")
    if len(variants) != 1:
        raise UnreadableDeclaration(f"it has {pluralize(len(variants), 'variant')}, and a wheel must be for one")
    spaces = require_object(next(iter(variants.values())), "the variant")
    found = {name: require_object(value, name) for name, value in spaces.items() if name in ("nvidia", "amd")}
    nvidia, amd = found.get("nvidia"), found.get("amd")
    claims = unique_claims(_variant_claims(nvidia or {}, amd or {}))
    lists = [vendor for vendor, key in (("nvidia", "sm_arch"), ("amd", "gfx_arch")) if key in found.get(vendor, {})]
    lists += [vendor for vendor in ("nvidia", "amd") if vendor not in found and found]
    return MetadataDeclaration(VARIANT, claims, tuple(lists))


def _variant_claims(nvidia: dict[str, Any], amd: dict[str, Any]) -> Iterator[MetadataClaim]:
    for text in require_strings(nvidia.get("sm_arch", []), "nvidia :: sm_arch"):
        number, _, form = text.partition("_")
        arch = parse_nvidia(f"sm_{number}")
        if arch is None or form not in ("", "real", "virtual"):
            raise UnreadableDeclaration(f"nvidia :: sm_arch :: {truncate(text)} is no architecture")
        if form != "virtual":
            yield MetadataClaim("image", "nvidia", arch.name, text)
        if form != "real":
            yield MetadataClaim("ptx", "nvidia", arch.name, text)
    for text in require_strings(nvidia.get("cuda_version_lower_bound", []), "nvidia :: cuda_version_lower_bound"):
        numbers = parse_declared_version(text)
        if numbers is None:
            raise UnreadableDeclaration(f"nvidia :: cuda_version_lower_bound :: {truncate(text)} is no version")
        yield MetadataClaim("cuda", "nvidia", "", f"CUDA {text}", numbers)
    for text in require_strings(amd.get("gfx_arch", []), "amd :: gfx_arch"):
        if not text.startswith("gfx"):
            raise UnreadableDeclaration(f"amd :: gfx_arch :: {truncate(text)} is no architecture")
        yield MetadataClaim("image", "amd", text, truncate(text))
