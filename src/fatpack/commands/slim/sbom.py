"""What device code a slimmed package holds, as a fragment of an SBOM: CycloneDX 1.6 in JSON.

A component for the package, in it one for each library with device code, in those one for each image. There is no time
and no serial number in it: the same package has the same text.
"""

from __future__ import annotations

from fatpack.commands.slim.facts import SlimmedFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fatpack.commands.slim.facts import ImageDigest
    from fatpack.commands.slim.members import PackageLibrary


def sbom_fragment(name: str, libraries: Iterable[PackageLibrary]) -> dict[str, Any]:
    """Return the fragment for a package of a file name. Only libraries whose digests were asked for are in it."""
    found = [_library(item.name, item.slimmed) for item in libraries if isinstance(item.slimmed, SlimmedFile)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "file", "bom-ref": name, "name": name}},
        "components": [item for item in found if item["components"]],
    }


def _library(name: str, made: SlimmedFile) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "hashes": [{"alg": "SHA-256", "content": made.digest}],
        "components": [_sbom_component(name, image) for image in made.images],
    }


def _sbom_component(library: str, image: ImageDigest) -> dict[str, Any]:
    facts = {"offload": image.offload, "arch": image.arch, "form": image.form, "size": str(image.size)}
    return {
        "type": "file",
        "bom-ref": f"{library}#{image.position}",
        "name": f"{image.arch} {image.form}",
        "hashes": [{"alg": "SHA-256", "content": image.digest}],
        "properties": [{"name": f"fatpack:{key}", "value": value} for key, value in facts.items() if value],
    }
