"""CIR files: a few helpers, and random modules with everything that a textual tool can get wrong, for mlir-opt too.

Every operation, argument and module has a location of its own, so that two spellings of one module print alike.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from fatpack.formats import cir
from fatpack.io.source import BytesSource, Span
from fatpack.model import Container, Image, Target
from fatpack.testing.helpers import join_pieces

if TYPE_CHECKING:
    pass


class Builder:
    """One file: alias definitions, a module, resources. The same seed gives the same file.

    With ``is_wide`` there are files without a module of their own, settings, and resources of a dialect that mlir-opt
    does not know, and refuses.
    """

    def __init__(self, seed: int, *, is_wide: bool = False) -> None:
        self.random = random.Random(seed)
        self.is_wide = is_wide
        self.modules = 0
        self.types: list[str] = []
        self.functions: list[str] = []
        self.attrs: list[str] = []
        self.locs: list[str] = []
        self.late_locs: list[str] = []
        self.definitions: list[str] = []
        self.late: list[str] = []
        self.resources: dict[str, str] = {}
        self.values = 0

    def file(self) -> str:
        pick = self.random
        for _ in range(pick.randrange(6)):
            self._type_alias()
            self._attr_alias()
        for _ in range(pick.randrange(1, 6)):
            self._loc_alias()
        for number in range(pick.randrange(3)):
            name = f"#late{number}"
            self.late_locs.append(name)
            self.late.append(f'{name} = loc("late.cu":{pick.randrange(9)}:1)')
        for _ in range(pick.randrange(3)):
            self.resources[f"blob{pick.randrange(3)}"] = f'"0x04000000{pick.randrange(256):02X}000000"'
        is_implicit = self.is_wide and pick.random() < 0.2
        module = "".join(self._item(1, "") for _ in range(pick.randrange(4))) if is_implicit else self._module()
        separator = pick.choice(["\n", "\n\n", "\n// #t0 = 1 : i32 }{\n", " "])
        lines = separator.join(self.definitions)
        text = f"{lines}\n{module}\n" + "\n".join(self.late) + "\n" + self._metadata()
        if pick.random() < 0.2:
            text = text.rstrip("\n") + pick.choice(["", "// \u00c3\u00a4 {", "\n// the end }"])
        return text.replace("\n", "\r\n") if pick.random() < 0.1 else text

    def _gap(self) -> str:
        """Return what may stand between two tokens."""
        return self.random.choice([" ", " ", " ", " ", "\n", "  // } @no #no {\n", "\n// \u00c3\u00a4 'loc(\n\n", "\t"])

    def _alias_name(self, sigil: str, stem: str, taken: list[str]) -> str:
        number = len(taken)
        return sigil + self.random.choice([f"{stem}{number}", f"{stem}_{number}", str(number), f"{stem}${number}-x"])

    def _type_alias(self) -> None:
        value = self.random.choice([self._type, lambda: f"tuple<{self._type()}, {self._type()}>", self._function])()
        name = self._alias_name("!", "t", [*self.types, *self.functions])
        self.definitions.append(f"{name}{self._gap()}={self._gap()}{value}")
        (self.functions if value.startswith("(") else self.types).append(name)

    def _attr_alias(self) -> None:
        name = self._alias_name("#", "a", self.attrs)
        self.definitions.append(f"{name} = {self._attr()}")
        self.attrs.append(name)

    def _loc_alias(self) -> None:
        name = f"#loc{len(self.locs) or ''}"
        self.definitions.append(f"{name} = {self._loc_value()}")
        self.locs.append(name)

    def _function(self) -> str:
        return f"({self._type()}, {self._type()}) -> ({self._type()})"

    def _type(self) -> str:
        choices = ["i32", "f64", "vector<4xi8>", '!cir.struct<"S" {data !cir.int<s, 32>}>', "!cir.ptr<!cir.void>"]
        if self.types:
            choices += self.types * 2
        return self.random.choice(choices)

    def _attr(self) -> str:
        pick = self.random
        simple = [
            "1 : i32",
            '"}{ \\22 // #loc"',
            '"\u00c3\u00a4 \u00e2\u0082\u00ac } \\C3\\A4"',
            '@"s\\22{ ".b::@"#a0"'.replace('".b', '"'),
            f'"a\\{pick.randrange(256):02X}b\\\\"',
            "unit",
            '@f::@"g}"',
            '#cir.demo<"}{ \\" //", [1, {k = "->"}], (a -> b)>',
            "affine_map<(d0, d1) -> (d0 + d1)>",
            "affine_set<(d0) : (d0 >= 5)>",
            "dense<[1, 2]> : tensor<2xi32>",
            "-31 : i64",
            self._type(),
            *self.functions,
        ]
        if self.attrs:
            simple += self.attrs
            simple.append(f"[{pick.choice(self.attrs)}, {{x = {pick.choice(self.attrs)}}}]")
        if self.resources:
            simple.append(f"dense_resource<{pick.choice(sorted(self.resources))}> : tensor<1xi32>")
        return pick.choice(simple)

    def _loc_value(self) -> str:
        pick = self.random
        choices = [f'loc("a.cu":{pick.randrange(3)}:{pick.randrange(3)})', "loc(unknown)", 'loc("x } y")']
        if self.locs:
            one, two = pick.choice(self.locs), pick.choice(self.locs)
            choices += [f"loc(fused[{one}, {two}])", f"loc(callsite({one} at {two}))", f'loc("n"({one}))']
        return pick.choice(choices)

    def _loc(self) -> str:
        if self.random.random() < 0.7:
            return f"loc({self.random.choice([*self.locs, *self.late_locs])})"
        return self._loc_value()

    def _operation(self, depth: int, indent: str) -> str:
        pick = self.random
        comment = pick.choice(["", "", "  // } trailing {", f"\n{indent}// {{ on its own #a0"])
        dictionary = "".join(f"{pick.choice(['', ' '])}k{i} = {self._attr()}," for i in range(pick.randrange(3)))
        attrs = f" {{{dictionary.rstrip(',')}}}" if dictionary else ""
        result = ""
        results = "()"
        if pick.random() < 0.5:
            count = pick.choice([1, 2])
            name = f"%{self.values}"
            self.values += 1
            result = f"{name}:{count} = " if count > 1 else f"{name} = "
            results = "(" + ", ".join(self._type() for _ in range(count)) + ")"
        if depth and pick.random() < 0.4:
            argument = f"%a{self.values}"
            self.values += 1
            inner = "".join(self._operation(depth - 1, indent + "  ") for _ in range(pick.randrange(3)))
            label = (
                f"\n{indent}^bb0({argument}: {self._type()} {self._loc()}):{pick.choice(['', '  // 1 pred: ^bb1 {'])}"
            )
            body = f" ({{{label}{inner}\n{indent}}})"
        else:
            body = ""
        name = pick.choice(["cir.func", "cir.x", "demo.op"])
        return f'\n{indent}{result}"{name}"(){body}{attrs} : () -> {results} {self._loc()}{comment}'

    def _nested(self, depth: int, indent: str) -> str:
        """Return a module inside a module, which may hold others."""
        pick = self.random
        self.modules += 1
        name = pick.choice(["", f" @n{self.modules}", f' @"n{self.modules} \\22}}"'])
        attrs = f" attributes {{demo.k = {self._attr()}}}" if pick.random() < 0.5 else ""
        inner = "".join(self._item(depth - 1, indent + "  ") for _ in range(pick.randrange(3)))
        return f"\n{indent}{pick.choice(['', 'builtin.'])}module{name}{attrs} {{{inner}\n{indent}}} {self._loc()}"

    def _item(self, depth: int, indent: str) -> str:
        is_module = depth and self.random.random() < 0.15
        return self._nested(depth, indent) if is_module else self._operation(depth, indent)

    def _module(self) -> str:
        pick = self.random
        body = "".join(self._item(2, "  ") for _ in range(pick.randrange(5)))
        attrs = {f"demo.k{i}": self._attr() for i in range(pick.randrange(4))}
        if pick.random() < 0.5:
            attrs['"demo.odd key}"'] = "unit"
        items = pick.choice([", ", ",\n    "]).join(f"{key} = {value}" for key, value in attrs.items())
        name = pick.choice(["m", '"/src/a }.cu"', '"\u00c3\u00a4 \\22{"'])
        if pick.random() < 0.3:
            symbol = name.strip('"')
            dictionary = f" {{{items}}}" if items else ""
            inner = body or "\n^bb0:"
            return (
                f'"builtin.module"() <{{sym_name = "{symbol}"}}> ({{{inner}\n}}){dictionary} : () -> () {self._loc()}'
            )
        header = f"{self._gap()}@{name}" if pick.random() < 0.7 else ""
        header += f"{self._gap()}attributes{self._gap()}{{{self._gap()}{items}{self._gap()}}}" if items else ""
        return f"module{header}{self._gap()}{{{body}\n}}{self._gap()}{self._loc()}"

    def _metadata(self) -> str:
        if not self.resources:
            return ""
        pick = self.random
        lines = ",\n".join(f"      {key}: {value}" for key, value in self.resources.items())
        groups = [f"    builtin: {{\n{lines}\n    }}"]
        if self.is_wide:
            # Of another dialect's only equal ones may meet: its uses cannot be found.
            keys = pick.sample(["k", '"k }"', "\\22".join('""')], pick.randrange(3))
            groups.insert(
                pick.randrange(2), "demo: {" + ", ".join(f'{key}: "0x04{len(key):02X}"' for key in keys) + "}"
            )
        sections = ["  dialect_resources: {\n" + ",\n".join(groups) + "\n  }"]
        if self.is_wide and pick.random() < 0.5:
            # Settings of tools belong to no module: they are in every file that is split off.
            sections.insert(pick.randrange(2), '  external_resources: {demo: {"a }#-}": "x", b: true}}')
        return f"{{-#{self._gap()}" + ",\n".join(sections) + f"{self._gap()}#-}}\n"


HOST = "host-x86_64-unknown-linux-gnu"
SM_80 = "cuda-nvptx64-nvidia-cuda--sm_80"
SM_90 = "cuda-nvptx64-nvidia-cuda--sm_90"


def image_of(text: str | bytes, spelling: str | None = None, offload: str = "none") -> Image:
    """Return a file as an image to be combined."""
    data = text.encode("latin-1") if isinstance(text, str) else text
    view = BytesSource(data, "input.cir").view()
    attrs = {} if spelling is None else {"id": spelling}
    return Image(Target(offload=offload), "cir", view, len(data), len(data), view.span(), attrs=attrs)


def container_of(*images: Image, form: str = "attribute") -> Container:
    return Container("cir-offload-container", 0, images, Span(0, 0), attrs={"form": form})


def combined(*files: tuple[str | bytes, str], form: str = "attribute") -> bytes:
    """Return the container of some files with their bundle IDs."""
    return join_pieces(cir.write(container_of(*(image_of(text, spelling) for text, spelling in files), form=form)))


def parsed(data: str | bytes, name: str = "test.cir", *, strict: bool = False) -> Container:
    data = data.encode("latin-1") if isinstance(data, str) else data
    return cir.parse(BytesSource(data, name).view(), strict=strict)


def splits(data: str | bytes) -> list[bytes]:
    """Return every module of a container as a file."""
    return [join_pieces(cir.split_image(image)) for image in parsed(data).images]
