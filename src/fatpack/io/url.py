"""URLs as inputs. Messages show them without passwords and signatures; foreign errors become ``OSError``.
====================  =============================================================================
``https://``          a file of a server that sends ranges; also ``http://``
``s3://BUCKET/KEY``   an object of S3, or of a server that speaks its protocol
``file://``           a path, percent-encoded
====================  =============================================================================
"""

from __future__ import annotations

import errno
import os
import sys

from fatpack.errors import UsageError, cli_or_api

#: Schemes that are read by ranges. ``file`` is a path.
REMOTE = ("http", "https", "s3")

#: Characters of a scheme, which starts with a letter (RFC 3986, section 3.1).
_SCHEME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+-.")


class Url(str):
    """A URL without its secrets (user, password, query, fragment), for messages; ``full_url`` has them."""

    __slots__ = ("full_url",)
    full_url: str

    def __new__(cls, full_url: str) -> Url:
        """Return the redacted URL of a full one."""
        url = super().__new__(cls, redact_url(full_url))
        url.full_url = full_url
        return url

    def __reduce__(self) -> tuple[object, ...]:
        return Url, (self.full_url,)


def find_scheme(text: str) -> str:
    """Return the scheme of a URL in lower case; "" if the text is not a URL."""
    scheme, colon, _ = text.partition("://")
    scheme = scheme.lower()
    return scheme if colon and scheme[:1].isalpha() and _SCHEME.issuperset(scheme) else ""


def redact_url(url: str) -> str:
    """Return a URL without user, password, query and fragment; keeps ``#offset=``."""
    url, mark, place = url.partition("#offset=")
    scheme, _, rest = url.partition("://")
    for end in "?#":
        rest = rest.partition(end)[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}{mark}{place}"


def redact_message(text: str) -> str:
    """Return a message of another library with its URLs redacted."""
    words = text.replace("'", " ' ").replace('"', ' " ').split(" ") if "://" in text else []
    if not words:
        return text
    return (
        " ".join(redact_url(word) if "://" in word else word for word in words).replace(" ' ", "'").replace(' " ', '"')
    )


def parse_url(text: str) -> str:
    """Return a path or a :class:`Url` for a URL; any other text is returned unchanged.

    Raises UsageError if the scheme is not supported, the URL names no file, or the file is on another machine.
    """
    scheme = find_scheme(text)
    if not scheme:
        return text
    if scheme in REMOTE:
        host, _, path = redact_url(text).partition("://")[2].partition("/")
        if not host or (scheme == "s3" and not path):
            raise UsageError(f"{redact_url(text)} names no file", hint="write https://HOST/PATH or s3://BUCKET/KEY")
        return Url(text)
    if scheme == "file":
        if "#offset=" in text or "?offset=" in text:
            return text  # an address: fatpack.selectors.address parses it
        from urllib.parse import unquote_to_bytes

        host, slash, path = text.partition("://")[2].partition("/")
        if host.lower() not in ("", "localhost") or not slash:
            raise UsageError(
                f"{redact_url(text)} is a file of another machine", hint="file:///PATH is one of this machine"
            )
        return os.fsdecode(unquote_to_bytes(os.fsencode(slash + path)))
    known = ", ".join(f"{name}://" for name in (*REMOTE, "file"))
    more = cli_or_api("", "; give fatpack.open a file that fsspec opened")
    hint = f"read are {known}{more}"
    raise UsageError(f"{redact_url(text)}: no file, and {scheme}:// is not read", hint=hint)


def split_address(text: str) -> tuple[str, str, str, str]:
    """Return the URL, the path after ``!`` in a package, the members in parentheses, and the text after ``#offset=``.

    A ``!``, parentheses and a fragment of the URL itself are percent-encoded (``%21``, ``%28``, ``%23``). After a
    ``!``, parentheses are part of the path.
    """
    text, _, place = text.partition("#offset=")
    scheme, mark, rest = text.partition("://")
    url, _, inside = rest.partition("!")
    if inside:
        return f"{scheme}{mark}{url}", inside, "", place
    start = text.find("(", text.find("://"))
    if start < 0 or not text.endswith(")"):
        return text, "", "", place
    return text[:start], "", text[start + 1 : -1], place


# Errors of other libraries, as OSError with the name of the source: none of their classes leaves fatpack.

#: module → its error classes that are not subclasses of OSError. A module that is not loaded has raised nothing.
_ERRORS = {
    "zlib": ("error",),
    "lzma": ("LZMAError",),
    "zipfile": ("BadZipFile",),
    "http.client": ("HTTPException",),
    "aiohttp": ("ClientError", "InvalidURL"),
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "asyncio": ("TimeoutError",),
}

#: errno for errors that have none, by class
_NUMBERS = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES, TimeoutError: errno.ETIMEDOUT}


def foreign_errors() -> tuple[type[BaseException], ...]:
    """Return the error classes that a caller's object may raise; call it in the ``except`` clause."""
    found: list[type[BaseException]] = [OSError, EOFError, ValueError]
    for module, names in _ERRORS.items():
        if module in sys.modules:
            found += [getattr(sys.modules[module], name) for name in names if hasattr(sys.modules[module], name)]
    return tuple(found)


def as_os_error(error: BaseException, name: str) -> OSError:
    """Return an error as ``OSError`` with its class and errno, if it has any, and the name of the source."""
    if type(error).__name__ == "FileExpired":  # s3fs: the ETag changed since the object was opened
        return file_changed_error(name, "ETag")
    if isinstance(error, OSError) and error.errno is not None:
        return os_error_class(error.errno)(
            error.errno, redact_message(error.strerror or os.strerror(error.errno)), name
        )
    number = next((number for kind, number in _NUMBERS.items() if isinstance(error, kind)), errno.EIO)
    text = redact_message(str(error)).strip().rstrip(".")
    if number != errno.EIO:  # the text is often only the name
        text = os.strerror(number)
    return os_error_class(number)(number, text or type(error).__name__, name)


def os_error_class(number: int) -> type[OSError]:
    """Return the subclass of ``OSError`` that Python uses for an errno."""
    return type(OSError(number, ""))


def file_changed_error(name: str, what: str) -> OSError:
    """Return the error for a file that changed since it was opened; ``what`` is the property that differs."""
    return OSError(errno.ESTALE, f"the file changed since it was opened: another {what}; scan it again", name)
