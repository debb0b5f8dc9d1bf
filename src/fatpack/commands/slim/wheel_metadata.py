"""What a wheel is called, and what one is called that has other content: two different files never have one name.

The only module that asks the ``packaging`` library, which is the reference for what names and versions may be.
"""

from __future__ import annotations

import re

from fatpack.errors import Unsupported, UsageError, cli_or_api
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from fatpack.commands.slim.naming import NameChange

#: what a build tag may be (binary distribution format, "File name convention"; names allow no other characters)
_BUILD_TAG = re.compile(r"[0-9][A-Za-z0-9_.]*")


class WheelName(Record):
    """A wheel's file name in its parts, spelled as they are there; ``build_tag`` is "" where there is none."""

    distribution: str
    version: str
    build_tag: str
    tags: str

    @property
    def file_name(self) -> str:
        """The file name."""
        parts = (self.distribution, self.version, self.build_tag, self.tags)
        return "-".join(filter(None, parts)) + ".whl"


def parse_wheel_name(file_name: str) -> WheelName:
    """Return the parts of a wheel's file name. Raises UsageError for what is none."""
    utils = _packaging("utils")
    try:
        utils.parse_wheel_filename(file_name)
    except utils.InvalidWheelFilename as error:
        hint = "give the wheel the name that it had: its RECORD and pip go by it"
        raise UsageError(f"{file_name} is no name of a wheel: {error}", hint=hint) from error
    distribution, version, *build, python, abi, platform = file_name.removesuffix(".whl").split("-")
    return WheelName(distribution, version, build[0] if build else "", f"{python}-{abi}-{platform}")


def rename_wheel(old: WheelName, naming: NameChange) -> WheelName:
    """Return the name of a wheel with other content. Raises UsageError where it would be the old one's, or is none."""
    if naming.is_default:
        # Installers compare the digits first that a tag begins with: with one more, they take the new wheel.
        number = old.build_tag[: len(old.build_tag) - len(old.build_tag.lstrip("0123456789"))]
        naming = naming.replace(build_tag=f"{int(number or 0) + 1}{naming.default}")
    if not (naming.build_tag or naming.local_version):
        tag, label = (
            cli_or_api("--build-tag 1slim", "build_tag='1slim'"),
            cli_or_api("--local-version slim", "local_version='slim'"),
        )
        raise UsageError(
            f"{old.file_name} changes, and two different files must not have one name",
            hint=f"say how the new one differs: {tag} keeps the version, {label} makes it {old.version}+slim",
        )
    new = old
    if naming.local_version:
        new = new.replace(version=_with_label(old.version, naming.local_version))
    if naming.build_tag:
        if _BUILD_TAG.fullmatch(naming.build_tag) is None:
            text = f"build tag {naming.build_tag!r}: it starts with a digit, and has letters, digits, _ and . behind it"
            raise UsageError(text, hint="for example 1sm90")
        new = new.replace(build_tag=naming.build_tag)
    if new == old:
        raise UsageError(f"{old.file_name} has the build tag {old.build_tag} already", hint="give another one")
    return new


def _with_label(version: str, label: str) -> str:
    """Return a version with a label behind what it has locally already (PEP 440, "Local version identifiers")."""
    versions = _packaging("version")
    try:
        local = versions.Version(f"0+{label}").local
    except versions.InvalidVersion as error:
        text = f"local version {label!r}: it is letters and digits in parts that dots separate"
        raise UsageError(text, hint="for example sm90") from error
    return f"{version}{'.' if '+' in version else '+'}{local}"


def is_same_version(one: str, other: str) -> bool:
    """Return whether two spellings mean one version; what is no version is the same as its own spelling alone."""
    versions = _packaging("version")
    try:
        return bool(versions.Version(one) == versions.Version(other))
    except versions.InvalidVersion:
        return one == other


def is_same_project(one: str, other: str) -> bool:
    """Return whether two spellings mean one project (PEP 503)."""
    utils = _packaging("utils")
    return bool(utils.canonicalize_name(one) == utils.canonicalize_name(other))


def is_lower_build(new: str, old: str) -> bool:
    """Return whether installers take the old build tag before the new one: by the number first, then by the rest."""

    def key(tag: str) -> tuple[int, str]:
        digits = len(tag) - len(tag.lstrip("0123456789"))
        return (int(tag[:digits]), tag[digits:]) if digits else (0, "")

    return bool(old) and key(new) <= key(old)


def _packaging(name: str) -> ModuleType:
    try:
        module: ModuleType = __import__(f"packaging.{name}", fromlist=[name])
    except ImportError:
        text = "names of wheels need the packaging library"
        raise Unsupported(text, hint="pip install packaging") from None
    return module
