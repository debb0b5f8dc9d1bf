"""What both versions hold, however they lay it out: global metadata, abstract modules, and images with metadata."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import pluralize
from fatpack.formats.diagnostics import FindingCollector
from fatpack.formats.syclbin.faults import syclbin_errors
from fatpack.formats.syclbin.properties import read_properties, value_text
from fatpack.formats.syclbin.stored import SyclbinEntry
from fatpack.formats.syclbin.syclbin_layout import GLOBAL_SET, IR, IR_FORMS, IR_SET, NATIVE_SET, STATES
from fatpack.model import Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.formats.syclbin.stored import SyclbinHeader
    from fatpack.io.source import View

    ImageFacts = Mapping[tuple[str, str], int | bytes]

#: The properties that say what an image is.
_OWN = {
    (GLOBAL_SET, "state"),
    (IR_SET, "type"),
    (IR_SET, "target"),
    (NATIVE_SET, "arch"),
    (NATIVE_SET, "target"),
}


class SyclbinContents:
    """The parts of a file as they are read, with what is wrong with them."""

    def __init__(self, body: View) -> None:
        """Start with nothing. Texts may share their bytes: what is read of them all is bounded."""
        self.faults = FindingCollector()
        self._body = body
        self._left = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(body))
        self._known: dict[tuple[int, int], ImageFacts] = {}

    def facts(self, text: View, field: str) -> ImageFacts:
        """Return the properties of a text that say what an image or file is; notes every line that is none.

        Raises LimitExceeded for a text that is too long, or for too much of them all.
        """
        place = text.start, text.end
        known = self._known.get(place)
        if known is None:
            if len(text) > limits.PROPERTY_SETS:
                problem, most = pluralize(len(text), "byte"), f"at most {limits.PROPERTY_SETS}"
                raise syclbin_errors.limit(text, 0, field, problem, most, limits.advice("PROPERTY_SETS"))
            self._left -= len(text)
            if self._left < 0:
                problem = "the property sets share their bytes, and are many times the size of the file"
                raise syclbin_errors.limit(text, 0, field, problem, hint=limits.advice("STRING_RATIO"))

            def wrong(at: int, size: int, problem: str) -> None:
                self.faults.unexpected("FP1802", text.span(at, size), f"{field}: {problem}", field=field)

            properties = read_properties(text.tobytes(), wrong)
            known = {(item.set, item.name): item.value for item in properties if (item.set, item.name) in _OWN}
            self._known[place] = known
        return known

    def state(self, text: View) -> int | None:
        """Return the number of the state that global metadata states, None if it states none."""
        state = self.facts(text, "global metadata").get((GLOBAL_SET, "state"))
        if not isinstance(state, int):
            self.faults.unexpected("FP1803", text.span(), "the global metadata states no state, which DPC++ asks for")
            return None
        if state not in STATES:
            known = ", ".join(f"{number} ({name})" for number, name in STATES.items())
            self.faults.unexpected("FP1803", text.span(), f"state {state}, where DPC++ knows {known}")
        return state

    def image(self, entry: SyclbinEntry, field: str) -> Image:
        """Return the image of an entry, with what its metadata and an offload binary around it say."""
        facts = self.facts(entry.metadata, f"metadata of {field}")
        own = IR_SET if entry.role == IR else NATIVE_SET
        triple, arch = (value_text(facts.get((own, name), b"")) for name in ("target", "arch"))
        kind = facts.get((IR_SET, "type"))
        attrs, offload, outer = {"role": entry.role}, "sycl", entry.outer
        if entry.module is not None:
            attrs["am_index"] = str(entry.module)
        if entry.role == IR and isinstance(kind, int):
            attrs["ir_type"] = str(kind)
        if outer is not None:
            self._compare(entry, outer, field, {"triple": triple, "arch": arch, "ir_type": attrs.get("ir_type", "")})
            offload = outer.target.offload
            triple, arch = triple or outer.target.triple, arch or outer.target.arch
            attrs = {**attrs, **{key: text for key, text in outer.attrs.items() if key != "sycl_format_version"}}
        return Image(
            target=Target(triple, arch, offload),
            form=IR_FORMS.get(kind, "") if entry.role == IR and isinstance(kind, int) else "",
            data=entry.data,
            size=len(entry.data),
            stored_size=outer.stored_size and len(entry.data) if outer is not None else len(entry.data),
            span=entry.data.span(),
            compression=outer.compression if outer is not None else None,
            attrs=attrs,
            record=entry,
        )

    def _compare(self, entry: SyclbinEntry, outer: Image, field: str, stated: Mapping[str, str]) -> None:
        """Note where the strings that an offload binary has for other tools are not what the metadata says."""
        shown = {"triple": outer.target.triple, "arch": outer.target.arch, "ir_type": outer.attrs.get("ir_type", "")}
        for key, text in stated.items():
            if shown[key] and text and shown[key] != text:
                problem = f"{key} is {text!r} in the metadata, which DPC++ reads, and {shown[key]!r} in the entry"
                self.faults.unexpected("FP1805", entry.metadata.span(), f"{field}: {problem}", field=field)


def bundle_state(header: SyclbinHeader) -> str:
    """Return the state of a file as ``sycl::bundle_state`` has it, or its number; "" if it states none."""
    return "" if header.state is None else STATES.get(header.state, str(header.state))
