"""What other people's sources raise, as ``OSError`` with the name of the source: nothing of theirs leaves fatpack."""

from __future__ import annotations

import errno
import os
import sys

from fatpack.io.url import redact_message

#: module → its errors that are no ``OSError``. A module that is not loaded has raised nothing.
_ERRORS = {
    "zlib": ("error",),
    "lzma": ("LZMAError",),
    "zipfile": ("BadZipFile",),
    "http.client": ("HTTPException",),
    "aiohttp": ("ClientError", "InvalidURL"),
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "asyncio": ("TimeoutError",),
}

#: The number of an error that has none, by its class.
_NUMBERS = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES, TimeoutError: errno.ETIMEDOUT}


def foreign_errors() -> tuple[type[BaseException], ...]:
    """Return what reading from an object of somebody else may raise; for an ``except``, which asks when it happens."""
    found: list[type[BaseException]] = [OSError, EOFError, ValueError]
    for module, names in _ERRORS.items():
        if module in sys.modules:
            found += [getattr(sys.modules[module], name) for name in names if hasattr(sys.modules[module], name)]
    return tuple(found)


def as_os_error(error: BaseException, name: str) -> OSError:
    """Return an error as ``OSError``: its kind and number if it is one, and the name of the source."""
    if type(error).__name__ == "FileExpired":  # s3fs: the object has another ETag than when it was opened
        return file_changed_error(name, "ETag")
    if isinstance(error, OSError) and error.errno is not None:
        return os_error_class(error.errno)(
            error.errno, redact_message(error.strerror or os.strerror(error.errno)), name
        )
    number = next((number for kind, number in _NUMBERS.items() if isinstance(error, kind)), errno.EIO)
    text = redact_message(str(error)).strip().rstrip(".")
    if number != errno.EIO:  # the text is often no more than the name
        text = os.strerror(number)
    return os_error_class(number)(number, text or type(error).__name__, name)


def os_error_class(number: int) -> type[OSError]:
    """Return the class that Python gives an ``OSError`` of that number."""
    return type(OSError(number, ""))


def file_changed_error(name: str, what: str) -> OSError:
    """Return the error that a file is not the one that was opened; ``what`` of it is another one."""
    return OSError(errno.ESTALE, f"the file changed since it was opened: another {what}; scan it again", name)
