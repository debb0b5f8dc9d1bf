"""Colours of pictures: one for each family of architectures, on light and on dark paper.

The fills have one lightness and one chroma (OKLCH: 0.80 or 0.77 and 0.085 on light paper, 0.50 or 0.47 on dark); the
hue tells the family: NVIDIA from olive over green and blue to violet, older to newer, AMD the warm ones.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: family → its colour on light and on dark paper
FAMILIES = {
    "sm2": ("#cfbe7e", "#726222"),
    "sm3": ("#b7b979", "#5e5f1f"),
    "sm5": ("#aec98e", "#556c35"),
    "sm6": ("#91c394", "#39673d"),
    "sm7": ("#87d0b1", "#287258"),
    "sm8": ("#6dc5c6", "#00696a"),
    "sm9": ("#84c8eb", "#256b8b"),
    "sm10": ("#97b5eb", "#405a8b"),
    "sm11": ("#b8b6f3", "#5f5c92"),
    "sm12": ("#c5a5dd", "#694d7e"),
    "gfx7": ("#cabf7f", "#6f6424"),
    "gfx8": ("#cfaf75", "#725518"),
    "gfx9": ("#eeab96", "#8c513f"),
    "gfx10": ("#dca87c", "#7d4f23"),
    "gfx11": ("#efa8ab", "#8d4e53"),
    "gfx12": ("#de9ebc", "#7e4661"),
    "intel": ("#79ccdf", "#0c6f81"),
    "host": ("#d3d6db", "#3d434c"),
    "other": ("#c1c6cd", "#4b525c"),
}

#: what is drawn beside the families → its colour on light and on dark paper
_PAPER = {
    "paper": ("#ffffff", "#14171c"),
    "ink": ("#1b2027", "#e4e7eb"),
    "soft": ("#5d6673", "#9aa4b1"),
    "line": ("#e2e5e9", "#2b313a"),
    "field": ("#b9c4d2", "#56616f"),
    "gap": ("#eceef1", "#23282f"),
    "hole": ("#c8412f", "#f0806e"),
}


def family_with_colour(family: str) -> str:
    """Return a family that has a colour: the given one, or ``other``."""
    return family if family in FAMILIES else "other"


def colour_style(families: Iterable[str]) -> str:
    """Return the style sheet of the colours: variables for both kinds of paper, and a class ``f-…`` for each family."""
    used = sorted({family_with_colour(family) for family in families})
    names = {**{f"f-{family}": FAMILIES[family] for family in used}, **_PAPER}
    light, dark = ("".join(f"--{name}:{pair[side]};" for name, pair in names.items()) for side in (0, 1))
    classes = "".join(f".f-{family}{{--c:var(--f-{family})}}" for family in used)
    schemes = f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    paper = f"@media print{{:root{{color-scheme:light;{light}}}}}"
    return f"{schemes}{paper}{classes}"


#: How what pictures draw looks; the same in a page and in a file of its own.
PICTURE_STYLE = (
    "svg.pic{font:11px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;display:block}"
    ".pic text{fill:var(--ink);dominant-baseline:middle;pointer-events:none}"
    ".pic .soft{fill:var(--soft)}.pic .end{text-anchor:end}.pic .mid{text-anchor:middle}"
    ".pic .arch{fill:var(--c);fill-opacity:.38}.pic .lib{fill:var(--gap)}"
    ".pic .part{fill:var(--c);stroke:var(--paper);stroke-width:.6}.pic .rest{fill-opacity:.55}"
    ".pic .own{fill:var(--c)}.pic .served{fill:var(--c);fill-opacity:.3}"
    ".pic .ptx{fill:none;stroke:var(--c);stroke-width:1.5;stroke-dasharray:3 2}"
    ".pic .link{fill:none;stroke:var(--soft);stroke-width:1.5;stroke-dasharray:1 2}"
    ".pic .none{fill:none;stroke:var(--hole);stroke-width:1.5}.pic .blank{fill:var(--gap)}"
    ".pic .b-image{fill:var(--c)}.pic .b-field{fill:var(--field)}.pic .b-data{fill:var(--field);fill-opacity:.55}"
    ".pic .b-padding,.pic .b-unknown{fill:var(--gap)}"
    ".pic b,.pic .strong{font-weight:600}"
)
