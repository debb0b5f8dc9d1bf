"""A message says what, where, what was expected and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from fatpack import errors
from fatpack.errors import BadValue, FatpackError, TargetError, Truncated, UsageError
from fatpack.exit_codes import error_message, exit_code


def test_the_example_of_the_docstring_is_what_is_printed() -> None:
    error = BadValue(
        "0x9000 + 0x2000 is past the end",
        format="llvm-offload-binary",
        offset=0x1A40,
        field="image size",
        expected="at most 0xa400",
        hint="the file looks cut short",
        chain=("host.o", ".llvm.offloading"),
    )
    assert str(error) == (
        "host.o → .llvm.offloading: llvm-offload-binary at 0x1a40: image size: 0x9000 + 0x2000 is past the end "
        "(expected at most 0xa400); the file looks cut short"
    )
    assert " ".join(str(error).split()) in " ".join((errors.__doc__ or "").split())


def test_truncated_counts_what_is_needed_and_left() -> None:
    error = Truncated(needed=8, left=-3, format="f", offset=16, field="header")
    assert str(error) == "f at 0x10: header: needs 8 bytes, 0 left; the file looks cut short"


def test_nearest_names_become_the_hint() -> None:
    assert str(TargetError("unknown target 'sm_9'", nearest=["sm_90"])).endswith("; did you mean sm_90?")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadValue("x"), 3),
        (errors.Unsupported("x"), 4),
        (errors.HostError("x"), 4),
        (UsageError("x"), 2),
        (TargetError("x"), 2),
        (FileNotFoundError(2, "No such file or directory", "a"), 5),
        (FileExistsError(17, "File exists", "a"), 2),
    ],
)
def test_exit_codes(error: FatpackError | OSError, code: int) -> None:
    assert exit_code(error) == code


def test_messages_cannot_drive_the_terminal() -> None:
    assert "\x1b" not in error_message(UsageError("a\x1b[31mb\nc"))
    assert (
        error_message(FileNotFoundError(2, "No such file or directory", "a\nb")) == "a\\nb: No such file or directory"
    )


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    def said(name: str) -> str:
        return error_message(FileNotFoundError(2, "No such file or directory", name))

    folder = str(tmp_path / "slim")
    assert said(f"{folder}/x.so") == f"{folder}/x.so: No such file or directory; there is no folder {folder}"
    assert said(str(tmp_path / "x.so")).endswith("x.so: No such file or directory")
    assert said("s3://bucket/x.so") == "s3://bucket/x.so: No such file or directory"


def test_a_rename_that_failed_names_what_was_asked_for() -> None:
    error = PermissionError(1, "Operation not permitted", "dir/.part", None, "dir/out.o")
    assert error_message(error) == "dir/out.o: Operation not permitted"


def test_long_names_are_cut_in_their_middle() -> None:
    name = "a" * (1 << 20) + "'"
    error = BadValue(f"'{name} is odd", field=name, found=name, hint=f"see {name}", chain=("x" * 500, name))
    assert len(str(error)) < 1500
    assert str(error).startswith("x" * 500 + " → aaa")
    assert error.problem.endswith(f"aaa…{len(name) + 1 - 160} characters…{'a' * 39}' is odd")
    assert error.args == (error.problem,)


def test_long_messages_are_cut_even_if_their_words_are_short() -> None:
    text = "word " * 10_000
    assert len(errors.truncate_words(text)) < 200
    assert errors.truncate_words(text[:5000]) == text[:5000]
