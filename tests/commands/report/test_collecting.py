"""An overview says what the rows say: sums, coverage by the rules of devices, and what is there twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.commands.explain.run import ExplainQuery, explain_rows
from fatpack.commands.report import coverage
from fatpack.commands.report import overview as report_overview
from fatpack.commands.report.model import ReportResult
from fatpack.commands.report.overview import build_overview
from fatpack.commands.report.page import page_summary
from fatpack.commands.report.sizes import arch_sort_key, repeated_sizes
from fatpack.tabular.columns import ImageRow, KernelRow, RowOptions
from fatpack.tabular.read_many import read_paths
from fatpack.targets.devices import parse_device
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.testing.helpers import TracedMemory

READ = RowOptions(digests=True, kernels=True, each_kernel=True)


def image(
    arch: str, kernels: dict[str, int], *, form: str = "cubin", path: str = "lib.so", **more: Any
) -> Iterator[ImageRow | KernelRow]:
    size = more.pop("size", 1000)
    place = {"path": path, "arch": arch, "form": form, "triple": "nvptx64-nvidia-cuda", "offload": "cuda"}
    yield ImageRow(row="image", **place, **{"size": size, "stored_size": size // 4, "containers": 0, **more})
    for name, code_size in kernels.items():
        yield KernelRow(row="kernel", **place, kernel=name, code_size=code_size)


def end(path: str = "lib.so", **more: Any) -> ImageRow | KernelRow:
    return ImageRow(
        row="file", path=path, **{"exit_code": 0, "file_size": 5000, "host": "elf", "searched": "places", **more}
    )


def cells(overview: ReportResult) -> dict[tuple[str, ...], tuple[str, ...]]:
    (library,) = overview.coverage
    return {row.names: row.cells for row in library.patterns}


def test_bytes_of_an_image_are_divided_among_its_kernels_and_the_rest() -> None:
    rows = [*image("sm_90", {"_Z1av": 300, "_ZN1n1bIiEEv": 100, "_ZN1n1bIfEEv": 100}), end()]
    overview = build_overview(rows)
    (arch,) = overview.files[0].archs
    parts = {part.name: part.bytes for part in arch.parts}
    assert {name: (each.count, each.stored, each.inflated) for name, each in parts.items()} == {
        "a": (1, 75, 300),
        "n::b": (2, 50, 200),
        "tables, constants, debug": (0, 125, 500),
    }
    assert (arch.bytes.count, arch.bytes.stored, arch.bytes.inflated) == (1, 250, 1000)


def test_symbols_that_state_more_bytes_than_the_image_has_get_no_more_than_it_has() -> None:
    overview = build_overview([*image("sm_90", {"a": 10**15, "b": 10**15}), end()])
    (arch,) = overview.files[0].archs
    assert [part.bytes.inflated for part in arch.parts] == [500, 500]


def test_stored_bytes_are_unknown_where_those_of_an_image_are() -> None:
    overview = build_overview([*image("sm_90", {"a": 10}, stored_size=None), *image("sm_90", {"a": 10}), end()])
    assert (overview.bytes.stored, overview.bytes.inflated) == (None, 2000)


def test_a_bundle_that_is_compressed_as_one_counts_once_for_all_its_images() -> None:
    bundle = {"stored_size": None, "container_size": 300}
    rows = [
        ImageRow(row="image", path="lib.so", offload="host", size=0, position="0.0", containers=0, **bundle),
        *image("gfx90a", {"a": 10}, position="0.1", **bundle),
        *image("gfx942", {"a": 10}, position="0.2", **bundle),
        *image("gfx942", {"b": 10}, position="1.0", stored_size=None, container_size=70),
        *image("gfx942", {"c": 10}, position="2.0", container_size=260),
        end(),
    ]
    overview = build_overview(rows)
    assert (overview.bytes.stored, overview.bytes.inflated, overview.bytes.count) == (300 + 70 + 250, 4000, 5)
    assert (overview.shared, overview.files[0].shared) == (370, 370)
    assert [(arch.label, arch.bytes.stored) for arch in overview.archs] == [("gfx90a", None), ("gfx942", None)]
    assert [line.bundle for line in overview.images] == [300, 300, 300, 70, None]
    assert any("1 image without bytes" in note for note in overview.notes)


def test_containers_in_a_bundle_that_is_compressed_as_one_share_its_bytes() -> None:
    rows = [
        *image("", {}, form="fatbin", containers=1, position="0.0", stored_size=None, container_size=300),
        *image("sm_90", {}, position="0.0/0.0", size=1000, stored_size=100),
        *image("sm_90", {}, position="1.0", size=1000, stored_size=100),
        end(),
    ]
    overview = build_overview(rows)
    assert (overview.bytes.stored, overview.shared, overview.bytes.inflated) == (400, 300, 2000)


def test_devices_that_run_every_kernel_are_those_that_explain_names() -> None:
    rows = [
        *image("sm_80", {"a": 1, "b": 1}, container=0, container_format="cuda-fatbin"),
        *image("sm_90", {"a": 1}, container=0, container_format="cuda-fatbin"),
        *image("sm_100", {"a": 1, "b": 1}, form="ptx", container=0, container_format="cuda-fatbin"),
        end(),
    ]
    (answer,) = build_overview(rows).coverage[0].runs_on
    assert {"sm_80", "sm_86", "sm_89"} <= {*answer.ready}
    assert {"sm_100", "sm_120"} <= {*answer.compiled}
    assert "sm_90" in answer.partly and answer.unknown == ("sm_88",), "whether it is of Tegra"
    assert not {"sm_75", "sm_70"} & {*answer.ready, *answer.compiled, *answer.partly, *answer.unknown}
    images = [row for row in rows if isinstance(row, ImageRow)]
    for name, runs in (("sm_86", 1), ("sm_120", 1), ("sm_75", 0)):
        (said,) = explain_rows(images, ["lib.so"], ExplainQuery((parse_device(name),), RuntimeSettings())).devices
        assert said.runs == runs


def test_images_of_a_size_of_their_own_need_no_digest() -> None:
    rows = [*image("sm_80", {}, size=7), *image("sm_86", {}, size=7), *image("sm_90", {}, size=8), end()]
    heads = [row.replace(container_format="cuda-fatbin") for row in rows if isinstance(row, ImageRow)]
    assert repeated_sizes(heads) == {7}
    assert repeated_sizes(rows) is None, "of a file that is an image itself, or in a bundle, heads do not say enough"
    recorded = FIXTURES / "cuda_fatbin" / "recorded"
    paths = [recorded / "v130_none.fatbin", recorded / "v118_all_ident.fatbin", recorded / "v130_none.fatbin"]
    sizes = repeated_sizes(read_paths(paths, RowOptions()))
    assert sizes
    some = build_overview(read_paths(paths, READ.replace(digest_sizes=sizes)))
    assert some == build_overview(read_paths(paths, READ))
    assert some.duplicates


def test_no_device_code_is_an_answer_of_its_own() -> None:
    overview = build_overview([end("a.txt")])
    assert (overview.exit_code, overview.verdict, bool(overview)) == (1, "nothing", False)


def test_an_image_that_holds_others_is_counted_by_those() -> None:
    rows = [
        *image("", {}, form="fatbin", containers=1, position="0.0", size=400, stored_size=200),
        *image("sm_90", {}, position="0.0/0.0", size=1000, stored_size=100),
        end(),
    ]
    (arch,) = build_overview(rows).archs
    assert (arch.label, arch.bytes.stored, arch.bytes.inflated) == ("sm_90", 50, 1000)


def test_coverage_knows_which_images_run_where() -> None:
    rows = [
        *image("sm_80", {"everywhere": 1, "old": 1}),
        *image("sm_86", {"everywhere": 1}),
        *image("sm_90", {"everywhere": 1, "new": 1}),
        *image("sm_90a", {"special": 1}),
        *image("sm_90", {"text": 1}, form="ptx"),
        end(),
    ]
    overview = build_overview(rows)
    assert overview.coverage[0].columns == ("sm_80", "sm_86", "sm_90", "compute_90", "sm_90a")
    assert cells(overview) == {
        ("everywhere",): ("own", "own", "own", "blank", "served"),
        ("old",): ("own", "served", "none", "blank", "none"),  # an sm_80 cubin runs on 8.x alone
        ("new",): ("none", "none", "own", "blank", "served"),
        ("special",): ("none", "none", "served", "blank", "own"),  # sm_90a runs on 9.0, which sm_90 is for
        ("text",): ("none", "none", "ptx", "own", "ptx"),  # PTX runs on later devices only
    }
    assert overview.coverage[0].with_holes == 4


def test_relocatable_code_covers_nothing_before_a_device_link_as_explain_says() -> None:
    waiting = {"section": "__nv_relfatbin", "container": 0}
    rows = [
        *image("sm_90", {"both": 1, "waits": 1}, position="0.0", **waiting),
        *image("sm_80", {"text": 1}, form="ptx", position="0.1", **waiting),
        *image("sm_90", {"both": 1}, section=".nv_fatbin", container=1, position="1.0"),
        end(),
    ]
    overview = build_overview(rows)
    assert cells(overview) == {
        ("both",): ("blank", "own"),
        ("waits",): ("blank", "link"),
        ("text",): ("link", "link"),
    }
    assert (overview.coverage[0].with_holes, overview.coverage[0].relocatable) == (0, 2)
    said = "".join(page_summary(overview))
    assert said.startswith("2 kernels for sm_90, compute_80: relocatable") and "Every kernel" not in said
    assert overview.links == ("sm_90", "compute_80")
    assert "sm_90" in overview.coverage[0].runs_on[0].partly and not overview.coverage[0].runs_on[0].ready
    question = ExplainQuery((parse_device("H100"),), RuntimeSettings())
    (answer,) = explain_rows(
        [row for row in rows[:4] if isinstance(row, ImageRow)] + [rows[-1]], ["lib.so"], question
    ).devices  # type: ignore[list-item]
    assert (answer.runs, answer.unknown) == (0, 1), "what explain says of the relocatable images alone"


def test_coverage_takes_amd_processors_as_the_rules_do() -> None:
    amd = {"form": "code-object", "triple": "amdgcn-amd-amdhsa", "offload": "hip"}
    rows: list[ImageRow | KernelRow] = []
    for arch, names in {"gfx90a": ["a", "b"], "gfx1100": ["a"]}.items():
        rows.append(ImageRow(row="image", path="lib.so", arch=arch, size=10, stored_size=10, containers=0, **amd))
        rows += [KernelRow(row="kernel", path="lib.so", arch=arch, kernel=name, **amd) for name in names]
    overview = build_overview([*rows, end()])
    assert overview.coverage[0].columns == ("gfx90a", "gfx1100")
    assert cells(overview) == {("a",): ("own", "own"), ("b",): ("own", "none")}


def test_the_same_image_in_two_libraries_is_a_duplicate_with_its_cost() -> None:
    rows = [
        *image("sm_90", {}, sha256="aa", position="0.0"),
        *image("sm_90", {}, sha256="bb", position="0.1"),
        end(),
        *image("sm_90", {}, sha256="aa", path="other.so", position="0.0"),
        end("other.so"),
    ]
    overview = build_overview(rows)
    (found,) = overview.duplicates
    assert (found.kind, found.digest, found.count, found.files, found.cost) == ("image", "aa", 2, 2, 250)
    assert found.places == ("lib.so 0.0", "other.so 0.0")
    assert overview.duplicate_cost == 250


def test_what_cannot_be_read_is_in_the_overview_and_its_exit_code() -> None:
    overview = build_overview([end(), end("gone.so", error="gone.so: No such file", exit_code=5, file_size=None)])
    assert overview.exit_code == 5
    assert [(file.path, file.error) for file in overview.files] == [("gone.so", "gone.so: No such file")]
    assert overview.files_read == 2


def test_holes_count_and_come_first_where_not_all_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "_MOST_PATTERNS", 1)
    rows = [*image("sm_90", {"a": 1, "b": 1, "c": 1}), *image("sm_75", {"a": 1, "b": 1}), end()]
    (made,) = build_overview(rows).coverage
    assert (made.with_holes, made.not_listed, [item.names for item in made.patterns]) == (1, 2, [("c",)])
    monkeypatch.setattr(coverage, "_MOST_COLUMNS", 1)
    overview = build_overview(rows)
    assert not overview.coverage[0].is_whole
    assert "Every kernel" not in "".join(page_summary(overview))


def test_findings_are_counted_by_code_with_what_they_mean() -> None:
    rows = [*image("sm_90", {}, findings=("FP1106",)), end(findings=("FP1001",), exit_code=3)]
    assert [(item.code, item.severity, item.count) for item in build_overview(rows).findings] == [
        ("FP1001", "error", 1),
        ("FP1106", "warning", 1),
    ]


def test_what_is_not_listed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_overview, "MAX_IMAGES", 2)
    monkeypatch.setattr(report_overview, "MAX_FILES", 1)
    rows = [*image("sm_90", {}, size=8), *image("sm_80", {}, size=800), *image("sm_70", {}, size=80), end()]
    overview = build_overview([*rows, *image("sm_90", {}, path="b.so", size=4), end("b.so")])
    assert [line.label for line in overview.images] == ["sm_80", "sm_70"], "the largest, in the order of the file"
    assert [file.path for file in overview.files] == ["lib.so"]
    assert overview.bytes.count == overview.image_count == 4
    assert len(overview.notes) == 2


def test_files_that_are_not_listed_are_in_the_sums_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(count: int) -> Iterator[ImageRow | KernelRow]:
        for number in range(count):
            path, error = f"{number}.so", f"{number:04}" * 1000
            stored = None if number == 3 else 8 + number
            yield from image(("sm_90", "sm_80")[number % 2], {}, path=path, size=80, stored_size=stored)
            yield end(path, error=error)

    whole = build_overview(rows(9))
    monkeypatch.setattr(report_overview, "MAX_FILES", 2)
    monkeypatch.setattr(report_overview, "MAX_IMAGES", 2)
    made = build_overview(rows(9))
    assert (made.archs, made.bytes, len(made.files)) == (whole.archs, whole.bytes, 2)
    with TracedMemory() as memory:
        build_overview(rows(1000))
    assert memory.peak < 1 << 20, "what is kept of all files takes more than 4 MB"


def test_the_sums_are_those_of_the_rows_of_a_real_file() -> None:
    path = FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin"
    rows = list(read_paths([path], READ))
    overview = build_overview(rows)
    images = [row for row in rows if isinstance(row, ImageRow) and row.row == "image"]
    assert overview.bytes.stored == sum(row.stored_size or 0 for row in images)
    assert overview.bytes.inflated == sum(row.size or 0 for row in images)
    for arch in overview.files[0].archs:
        assert abs(sum(part.bytes.inflated for part in arch.parts) - arch.bytes.inflated) <= len(arch.parts)
    assert json.loads(json.dumps(overview.to_dict()))["image_count"] == len(images)


def test_architectures_are_in_the_order_of_their_age() -> None:
    names = ["sm_100", "gfx1100", "sm_90a", "host", "gfx90a", "sm_90", "sm_75", "gfx942"]
    assert sorted(names, key=arch_sort_key) == [
        "gfx90a",
        "gfx942",
        "gfx1100",
        "sm_75",
        "sm_90",
        "sm_90a",
        "sm_100",
        "host",
    ]
