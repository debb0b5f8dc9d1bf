"""What ``report`` says code is worth: dead bytes first, what architectures cost, kernels that do nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from io import BytesIO
from pathlib import Path

from tests.builders.fatbin import PTX, entry, fatbin, of_words

import fatpack
from fatpack.commands.report.model import ReportResult
from fatpack.printable import format_size

MARKS = {"runs": "served", "compiles": "ptx", "unknown": "link", "fails": "none"}
SVG = "{http://www.w3.org/2000/svg}"


def report(path: Path, kind: str = "markdown") -> tuple[ReportResult, str]:
    text = BytesIO()
    return fatpack.write_report(path, text, kind=kind), text.getvalue().decode()


def test_it_begins_with_what_can_never_run(tmp_path: Path) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(of_words("90 90a p80 p90"))
    result, text = report(path)
    (dead,) = result.worth.dead
    assert (dead.reason, dead.label, dead.images) == ("beaten", "sm_90", 1)
    assert dead.stored == next(row.stored_size for row in fatpack.rows(path) if row.label == "sm_90")
    assert text.index("Code that can never run") < text.index("| library |")
    assert "fatpack slim FILE --lossless --drop-dead" in text
    _, page = report(path, "html")
    assert page.index('id="dead"') < page.index('id="bytes"') and 'id="costs"' in page


def test_the_picture_says_what_devices_take_instead(tmp_path: Path) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(of_words("80 86 p90"))
    result, text = report(path, "costs")
    root = ET.fromstring(text.encode())
    groups = {group[1].text: group for group in root.iter(f"{SVG}g") if group[0].tag == f"{SVG}title"}
    costs = {cost.label: cost for cost in result.worth.costs}
    assert groups.keys() == costs.keys() == {"sm_80", "sm_86", "compute_90"}
    for label, group in groups.items():
        texts = [node.text for node in group.iter(f"{SVG}text")]
        cost = costs[label]
        assert group[0].text == cost.advice and any(format_size(cost.stored or 0) in (text or "") for text in texts)
        for one in cost.instead:
            assert any((text or "").endswith(f": {one.words}") for text in texts)
        bar = next(node for node in group.iter(f"{SVG}rect") if node.get("class") == "own")
        most = max(each.stored or 0 for each in costs.values())
        assert abs(float(bar.get("width", "0")) - 240 * (cost.stored or 0) / most) < 0.1
    marks = [node.get("class") for node in groups["sm_86"].iter(f"{SVG}rect")]
    assert marks == ["own", *[MARKS[one.outcome] for one in costs["sm_86"].instead]]


def test_where_all_is_of_use_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(of_words("80 86 p86"))
    result, text = report(path)
    assert result.worth.dead == () and "None: some device takes each image." in text
    assert "run sm_80's code" in text.replace("\\", "")
    assert [cost.label for cost in result.worth.costs] == ["sm_80", "compute_86", "sm_86"]
    assert [cost["label"] for cost in result.to_dict()["worth"]["costs"]] == ["sm_80", "compute_86", "sm_86"]


def test_copies_in_other_files_are_told_apart(tmp_path: Path) -> None:
    for name in ("a.fatbin", "b.fatbin"):
        (tmp_path / name).write_bytes(of_words("80 86"))
    result, text = report(tmp_path)
    whole = sum(row.stored_size or 0 for row in fatpack.rows(tmp_path / "a.fatbin"))
    assert result.worth.doubled == whole and "copies of images of other files" in text
    assert {cost.path.rpartition("/")[2] for cost in result.worth.costs} == {"", "a.fatbin", "b.fatbin"}


def ptx(arch: int, body: str) -> bytes:
    words = f".version 8.0\n.target sm_{arch}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n{body}\n}}\n"
    return entry(words.encode() + b"\0", PTX, sm=arch)


def test_kernels_that_do_nothing_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "x.fatbin"
    busy = ".reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nst.global.u32 [%rd1], 3;\nret;"
    path.write_bytes(fatbin(ptx(80, "ret;"), ptx(90, busy)))
    result, text = report(path)
    (hollow,) = result.worth.hollow
    assert (hollow.kernel, hollow.label, hollow.verdict) == ("k", "compute_80", "certain: only returns")
    assert (result.worth.certain, result.worth.likely) == (1, 0)
    assert "certain: only returns" in text


def test_doctor_notes_them_and_the_file_is_healthy(tmp_path: Path) -> None:
    path = tmp_path / "x.fatbin"
    busy = ".reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nst.global.u32 [%rd1], 3;\nret;"
    path.write_bytes(fatbin(ptx(80, "ret;"), ptx(90, busy)))
    result = fatpack.doctor(path)
    told = "1 certain, 0 likely; the first is k on compute_80 (certain: only returns; works on compute_90)"
    assert any(item.code == "FP3350" and told in item.text for item in result.findings)
    assert result.exit_code == 0
