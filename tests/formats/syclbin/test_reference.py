"""Version 2 compared with LLVM's own library: yaml2obj 23 writes the same entries, llvm-objdump 23 reads them.

No available tool knows roles, so their meaning is compared with a second reading of DPC++'s source
(``tests/builders``).
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders.syclbin import GEN, SPIR64, Image, Module, entries, sets, yaml
from tests.reference import llvm_tool, run

from fatpack.formats import syclbin
from fatpack.formats.syclbin.layout import NewModules
from fatpack.io.source import Span
from fatpack.model import Container, Target
from fatpack.testing.helpers import join_pieces, make_image

relaxed = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

_NAMES = st.sampled_from(["bmg-g21", "pvc", "lnl-m", "gfx90a", "sm_80"])
_IMAGES = st.one_of(
    st.builds(Image, st.binary(max_size=60), st.sampled_from([SPIR64, "spirv64", "spir"])),
    st.builds(Image, st.binary(max_size=60), st.just(GEN), _NAMES),
)
_MODULES = st.lists(
    st.builds(
        lambda images, names: Module(
            sorted(images, key=lambda item: item.arch is not None),
            sets({"SYCL/kernel names": dict.fromkeys(names, 1)}) if names else b"",
        ),
        st.lists(_IMAGES, max_size=3),
        st.lists(st.sampled_from(["scale", "_ZTS1K"]), max_size=2, unique=True),
    ),
    max_size=4,
)


def model(modules: list[Module], state: str) -> Container:
    parts = [
        make_image(
            item.data,
            target=Target(item.triple, item.arch or "", "sycl"),
            form="",
            attrs={"role": item.role, "am_index": str(number)},
        )
        for number, module in enumerate(modules)
        for item in module.images
    ]
    properties = {number: module.properties for number, module in enumerate(modules)}
    return Container("syclbin", 2, tuple(parts), Span(0, 0), {"state": state}, record=NewModules(properties))


@relaxed
@given(modules=_MODULES, state=st.sampled_from([(0, "input"), (1, "object"), (2, "executable")]))
def test_version_2_is_what_llvms_library_writes_of_the_same_entries(
    tmp_path: Path, modules: list[Module], state: tuple[int, str]
) -> None:
    (tmp_path / "x.yaml").write_text(yaml(entries(modules, state[0])))
    run(llvm_tool("yaml2obj", "23"), "x.yaml", "-o", "x.syclbin", cwd=tmp_path)
    assert join_pieces(syclbin.write(model(modules, state[1]))) == (tmp_path / "x.syclbin").read_bytes()


def test_other_tools_see_triple_and_architecture_of_each_image(tmp_path: Path) -> None:
    modules = [Module([Image(b"code", SPIR64), Image(b"native", GEN, "bmg-g21")])]
    (tmp_path / "x.syclbin").write_bytes(join_pieces(syclbin.write(model(modules, "input"))))
    text = run(llvm_tool("llvm-objdump", "23"), "--offloading", "x.syclbin", cwd=tmp_path).stdout.decode()
    shown = [line.split() for line in text.splitlines() if line.startswith(("arch", "triple", "producer"))]
    assert [row[1:] for row in shown if row[0] == "producer"] == [["sycl"]] * 4
    assert [row[1:] for row in shown if row[0] == "triple"][2:] == [[SPIR64], [GEN]]
    assert ["arch", "bmg-g21"] in shown
