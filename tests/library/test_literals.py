"""The words that arguments take, as types: each list is that of the table that decides at run time."""

from __future__ import annotations

from typing import get_args

import pytest

import fatpack
from fatpack.commands.pack.formats import FORMATS
from fatpack.commands.slim.options import METHODS as METHODS_OF_SLIM
from fatpack.commands.slim.options import MODES as SLIM_MODES
from fatpack.commands.slim.options import PTX_MODES
from fatpack.commands.wrap.registration import KINDS
from fatpack.commands.wrap.run import EMITS
from fatpack.formats.cir.vocabulary import FORMS as CIR_FORMS
from fatpack.formats.clang_bundle.layout import METHODS, TYPES
from fatpack.formats.cuda_fatbin.writer import MODES, PRODUCERS
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS
from fatpack.formats.syclbin.layout import STATES
from fatpack.images import EXTENSIONS

TABLES = {
    "BundleType": TYPES,
    "CirForm": CIR_FORMS,
    "CompressMode": MODES,
    "Compression": METHODS.values(),
    "Emit": EMITS,
    "Form": EXTENSIONS,
    "Format": FORMATS,
    "KeepPtx": PTX_MODES,
    "Offload": ["none", *OFFLOAD_WORDS, "host"],
    "Producer": PRODUCERS,
    "Recompression": METHODS_OF_SLIM,
    "Runtime": KINDS,
    "SlimMode": SLIM_MODES,
    "SyclbinState": STATES.values(),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_type_lists_the_words_of_its_table(name: str) -> None:
    listed, decided = set(get_args(getattr(fatpack, name))), set(TABLES[name])
    assert listed == decided, (
        f"src/fatpack/literals.py: {name} lists {sorted(listed)}, the code takes {sorted(decided)}"
    )


def test_every_type_is_public_and_every_format_has_its_options() -> None:
    names = {*TABLES, *(row.options.__name__ for row in FORMATS.values())}
    missing = sorted(names - set(fatpack.__all__))
    assert not missing, f"src/fatpack/__init__.py does not offer {missing}"
    unknown = [row.json_name for row in FORMATS.values() if row.json_name not in fatpack.formats.MODULES]
    assert not unknown, f"commands/pack/formats.py packs {unknown}, and formats.ROOMS has no such format"
