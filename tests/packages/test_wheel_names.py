"""File names of wheels and of index files of variants, in parts."""

from __future__ import annotations

import pytest

from fatpack.packages.wheel_names import WheelName, indexed_release, split_wheel_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("demo-1.5-py3-none-any.whl", WheelName("demo", "1.5", "", "py3-none-any")),
        ("demo-1.5-1slim-py3-none-any.whl", WheelName("demo", "1.5", "1slim", "py3-none-any")),
        (
            "demo-1.5-cp312-cp312-linux_x86_64-sm90.whl",
            WheelName("demo", "1.5", "", "cp312-cp312-linux_x86_64", "sm90"),
        ),
        ("demo-1.5-1-py3-none-any-null.whl", WheelName("demo", "1.5", "1", "py3-none-any", "null")),
        ("demo-1.5-py3-none-any-9.0.whl", WheelName("demo", "1.5", "", "py3-none-any", "9.0")),
    ],
)
def test_a_name_in_parts_and_back(name: str, expected: WheelName) -> None:
    found = split_wheel_name(f"folder/{name}")
    assert found == expected
    assert found is not None
    assert found.file_name == name


@pytest.mark.parametrize(
    "name",
    ["demo.whl", "demo-1.5.whl", "demo-1.5-py3-none-any.zip", "demo-1.5-py3-none--x.whl", "demo-1.5-1-a-b-c-d-e.whl"],
)
def test_other_names(name: str) -> None:
    assert split_wheel_name(name) is None


def test_a_build_tag_begins_with_a_digit() -> None:
    assert split_wheel_name("demo-1.5-slim-py3-none-any-null.whl") is None


def test_wheels_of_a_release_and_its_index_share_project_and_version() -> None:
    wheel = split_wheel_name("My.Demo_x-1.5-py3-none-any-sm90.whl")
    assert wheel is not None
    assert wheel.release == ("my-demo-x", "1.5") == indexed_release("dist/my_demo_x-1.5-variants.json")
    assert wheel.platform == "any"
    assert [indexed_release(name) for name in ("demo-variants.json", "demo-1-2-variants.json", "x.json")] == [None] * 3
