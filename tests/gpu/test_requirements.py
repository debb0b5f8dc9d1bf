"""A required device fails the tests when it is missing, and none because of what its driver cannot do."""

from __future__ import annotations

import pytest
from tests.gpu.requirements import cuda, needs_capability, needs_driver, no_device


def test_a_required_device_that_is_missing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FATPACK_REQUIRE_GPU", "1")
    with pytest.raises(pytest.fail.Exception, match="no CUDA device"):
        no_device("no CUDA device")
    monkeypatch.delenv("FATPACK_REQUIRE_GPU")
    with pytest.raises(pytest.skip.Exception, match="no CUDA device"):
        no_device("no CUDA device")


def test_what_the_driver_of_a_required_device_cannot_do_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FATPACK_REQUIRE_GPU", "1")
    with pytest.raises(pytest.skip.Exception) as skipped:
        needs_driver(13040, 13000, "a group")
    assert skipped.value.msg == "a group needs a driver of CUDA 13.4, and this one is of CUDA 13.0"
    needs_driver(13040, 13040, "a group")


def test_what_another_device_is_needed_for_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FATPACK_REQUIRE_GPU", "1")
    with pytest.raises(pytest.skip.Exception) as skipped:
        needs_capability(90, 103, "the cubin")
    assert skipped.value.msg == "the cubin is for compute capability 9.0, and this device has 10.3"
    needs_capability(90, 90, "the cubin")


def test_versions_are_written_as_people_write_them() -> None:
    assert [cuda(number) for number in (13000, 13040, 12090)] == ["13.0", "13.4", "12.9"]
