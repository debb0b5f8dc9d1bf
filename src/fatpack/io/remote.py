"""Files on HTTP servers and in S3, read through fsspec; needs the extra ``fatpack[remote]``.

No other module imports fsspec. It has its user's settings: proxies, tokens, endpoints and keys are in its
configuration files and in the environment, never here. For HTTP it provides the session; every reply is checked here.
"""

from __future__ import annotations

import errno
import sys
from time import monotonic

from fatpack.errors import Unsupported, cli_or_api
from fatpack.io.ranges import RangedSource, SeekableReader
from fatpack.io.url import as_os_error, file_changed_error, find_scheme, foreign_errors, os_error_class
from fatpack.limits import current_budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, BinaryIO

    from fatpack.io.source import Source

#: LIMIT: seconds to connect, between two parts of a reply, and for the whole reply.
CONNECT, PART, WHOLE = 20, 60, 300

#: LIMIT: the least rate of a reply in bytes per second, after so many seconds. A modem sends 5,000.
LEAST_RATE, RATE_AFTER = 1000, 20

#: LIMIT: attempts per request if it fails on the way or the server is busy, and seconds between the first two.
ATTEMPTS, PAUSE = 3, 0.25

#: Statuses after which the same request may succeed later (RFC 9110, 15.6; RFC 6585, 4).
_BUSY = (429, 502, 503, 504)

#: Bytes of the first request: the headers of a file, and all of a small one.
_FIRST = 16 << 10

#: HTTP status → errno
_STATUS = {
    401: errno.EACCES,
    403: errno.EACCES,
    404: errno.ENOENT,
    407: errno.EACCES,
    408: errno.ETIMEDOUT,
    410: errno.ENOENT,
    504: errno.ETIMEDOUT,
}


def is_buffered(file: object) -> bool:
    """Return whether a file object is a buffered file of fsspec, whose cache reads whole blocks."""
    spec = sys.modules.get("fsspec.spec")
    return spec is not None and isinstance(file, spec.AbstractBufferedFile) and isinstance(file.size, int)


def without_cache(file: Any) -> BinaryIO:
    """Return another file object for the same file, without fsspec's cache, which reads 5 MB for a header.

    If the file cannot be opened like that, or changed meanwhile, return ``file`` itself.
    """
    try:
        again: Any = file.fs.open(file.path, "rb", cache_type="none")
    except TypeError:  # a third-party file system without this option
        return file  # type: ignore[no-any-return]
    except foreign_errors():
        return file  # type: ignore[no-any-return]
    is_same = is_buffered(again) and again.size == file.size
    return again if is_same else file  # type: ignore[no-any-return]


def open_url(url: str, name: str) -> Source:
    """Return a source for the file at a URL; ``name`` is the URL without secrets, for messages.

    Raises ``OSError`` for errors of the server or the network, and Unsupported if libraries are missing or the server
    does not support ranges.
    """
    return RangedSource(_S3Object(url, name) if find_scheme(url) == "s3" else _HttpFile(url, name), name, owned=True)


def _module(name: str) -> ModuleType:
    """Import a module of the extra. Raises Unsupported with the packages to install if it is missing."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        library = (error.name or name).partition(".")[0]
        hint = "install what reads them: pip install fsspec aiohttp s3fs"
        raise Unsupported(f"URLs cannot be read without {library}", hint=hint) from error


class _S3Object:
    """``read_at`` for an S3 object; s3fs requests the version that existed when the object was opened."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self.name = name
        _module("s3fs")
        fsspec = _module("fsspec")
        try:
            file: Any = fsspec.filesystem("s3", use_listings_cache=False).open(url, "rb", cache_type="none")
        except foreign_errors() as error:
            raise _advised(as_os_error(error, self.name), error) from error
        self.size: int = file.size
        self._etag = file.details.get("ETag")
        self._file = SeekableReader(file, self.name)

    @property
    def identity(self) -> str:
        """The size and the ETag; "" without an ETag."""
        return f"{self.size}:{self._etag}" if self._etag else ""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``. Raises ``OSError``."""
        return self._file.read_at(offset, size)

    def __getstate__(self) -> dict[str, object]:
        return {"url": self._url, "name": self.name, "size": self.size, "etag": self._etag}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["url"], state["name"])  # type: ignore[misc]
        for word, now, before in (("size", self.size, state["size"]), ("ETag", self._etag, state["etag"])):
            if now != before:
                raise file_changed_error(self.name, word)


def _advised(error: OSError, cause: BaseException) -> OSError:
    """Return an error of S3, with instructions if no credentials were found."""
    if type(cause).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        text = (
            "no keys were found for S3; set AWS_PROFILE or AWS_ACCESS_KEY_ID, or FSSPEC_S3_ANON=true for public files"
        )
        return PermissionError(errno.EACCES, text, error.filename)
    return error


class _HttpFile:
    """``read_at`` for a file on an HTTP server: one ``Range`` request per call (RFC 9110, section 14)."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self.name = name
        self.size = -1
        self._budget = current_budget()
        self._etag = self._modified = ""
        #: target of a redirection, kept only if requests to it carry no credentials of the first server
        self._final: Any = None
        #: the first bytes, used by the first read
        self._first = b""
        self._first = self.read_at(0, _FIRST)

    @property
    def identity(self) -> str:
        """The size with the ETag or the time of change; "" if the server sends neither."""
        validator = self._etag or self._modified
        return f"{self.size}:{validator}" if validator else ""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``. Raises ``OSError``, Unsupported."""
        if self._first and offset == 0 and size <= len(self._first):
            return self._first[:size]
        if self.size >= 0 and len(self._first) == self.size:
            return self._first[offset : offset + size]
        asyn = _module("fsspec.asyn")
        http = _module("fsspec.implementations.http")
        url = self._url
        # These take precedence over fsspec's configuration.
        settings: dict[str, Any] = {"trust_env": True}
        for scheme in ("http", "https"):
            settings |= _module("fsspec.config").conf.get(scheme, {}).get("client_kwargs", {})
        fs = http.HTTPFileSystem(encoded="%" in url, client_kwargs=settings)
        left, begin = self._budget.seconds_left, monotonic()
        if not left:
            raise self._out_of_time()
        try:
            return asyn.sync(fs.loop, self._request, fs, offset, size)  # type: ignore[no-any-return]
        except foreign_errors() as error:
            # fsspec raises an error of its own from a timeout.
            for told in (error, error.__cause__):
                if isinstance(told, OSError) and told.filename == self.name:
                    raise told from None
            if monotonic() - begin >= left:
                raise self._out_of_time() from error
            raise _in_words(error, self.name) from error
        finally:
            self._budget.wait(monotonic() - begin)

    def _out_of_time(self) -> OSError:
        limit = self._budget.waitable
        advice = cli_or_api(f"--timeout {4 * limit} waits longer", "download the file, and give its path")
        return TimeoutError(errno.ETIMEDOUT, f"servers were waited for {limit} s, the limit; {advice}", self.name)

    async def _request(self, fs: Any, offset: int, size: int) -> bytes:
        import asyncio

        aiohttp = _module("aiohttp")
        for attempt in range(1, ATTEMPTS + 1):
            is_last = attempt == ATTEMPTS
            try:
                data = await self._reply(aiohttp, fs, offset, size, is_last=is_last)
            except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
                raise
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                if is_last:
                    raise
                data = None
            if data is not None:
                return data
            await asyncio.sleep(PAUSE * 4 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    async def _reply(self, aiohttp: Any, fs: Any, offset: int, size: int, *, is_last: bool) -> bytes | None:
        """Return the bytes of one reply; None if the same request may succeed later."""
        session = await fs.set_session()
        options = dict(fs.kwargs)
        last = offset + size - 1
        # Ranges refer to stored bytes; "identity" asks the server not to compress them.
        headers = {"Range": f"bytes={offset}-{last}", "Accept-Encoding": "identity"}
        headers = {**options.pop("headers", {}), **headers}
        whole = max(0.001, min(WHOLE, self._budget.seconds_left))
        timeout = aiohttp.ClientTimeout(total=whole, sock_connect=CONNECT, sock_read=PART)
        first = fs.encode_url(self._url)
        async with session.get(self._final or first, headers=headers, timeout=timeout, **options) as reply:
            if reply.status in (401, 403, 404, 410) and self._final is not None:
                self._final = None  # signed links of stores expire
                return None if not is_last else self._refused(reply)
            if reply.status in _BUSY and not is_last:
                return None
            self._check(reply, offset, size)
            data = await self._body(reply, size)
            if reply.status == 200 and len(data) > size:
                raise self._without_ranges("it sends the whole file where a range is requested")
            if self.size < 0:
                self.size = self._size_in(reply, data)
                self._etag, self._modified = _validators(reply)
            # Credentials for one server must not be sent to another.
            is_open = not options and len(headers) == 2 and first.user is None and not fs.client_kwargs.get("auth")
            if reply.history and is_open:
                self._final = reply.url
            return data

    async def _body(self, reply: Any, size: int) -> bytes:
        """Return the body of a reply, cut after the part that makes it too long. Raises ``OSError`` if it drips."""
        if reply.status == 416:
            return b""
        data, begin = bytearray(), monotonic()
        async for part in reply.content.iter_any():
            data += part
            if len(data) > size:
                break
            taken = monotonic() - begin
            if taken > RATE_AFTER and len(data) < LEAST_RATE * taken and len(data) < size:
                text = f"the server sent {len(data)} bytes in {taken:.0f} s: too slow to read from; download the file"
                raise TimeoutError(errno.ETIMEDOUT, text, self.name)
        return bytes(data)

    def _check(self, reply: Any, offset: int, size: int) -> None:
        """Raise if a reply does not hold these bytes of this file."""
        if self.size >= 0 and reply.status in (200, 206, 416):
            etag, modified = _validators(reply)
            total = _range(reply)[2] if reply.status != 200 else None
            found = (
                ("size", self.size, total),
                ("ETag", self._etag, etag),
                ("time of change", self._modified, modified),
            )
            for word, known, received in found:
                if received not in (None, "", known) and known != "":
                    raise file_changed_error(self.name, word)
        if reply.status == 206:
            start, end, _ = _range(reply)
            if start != offset or end is None or end >= offset + size:
                sent = reply.headers.get("Content-Range")
                text = f"asked for the bytes {offset}-{offset + size - 1}, the server says it sends {sent!r}"
                raise OSError(errno.EIO, text, self.name)
            return
        if reply.status == 416 and offset == 0 and _range(reply)[2] == 0:
            return  # an empty file has no ranges
        if reply.status == 200:
            if reply.headers.get("Content-Encoding", "identity") != "identity":
                raise self._without_ranges("it compresses what it sends")
            if self.size >= 0 or (reply.content_length or 0) > size:
                raise self._without_ranges("it sends the whole file where a range is requested")
            return
        self._refused(reply)

    def _refused(self, reply: Any) -> bytes:
        number = _STATUS.get(reply.status, errno.EIO)
        raise os_error_class(number)(
            number, f"the server answers {reply.status} {reply.reason or ''}".rstrip(), self.name
        )

    def _size_in(self, reply: Any, data: bytes) -> int:
        """Return the size of the file from the first reply."""
        if reply.status == 200:
            return len(data)
        total = 0 if reply.status == 416 else _range(reply)[2]
        if total is None:
            raise self._without_ranges("it does not tell the size of the file")
        return total

    def _without_ranges(self, why: str) -> Unsupported:
        text = f"the server sends no ranges of bytes: {why}"
        return Unsupported(text, hint="download the file, and give its path", chain=(self.name,))

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key not in ("_first", "_final")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _first=b"", _final=None)


def _in_words(error: BaseException, name: str) -> OSError:
    """Return an error of a request as ``OSError``; redirections without an end have no words of their own."""
    if type(error).__name__ == "TooManyRedirects":
        return OSError(errno.ELOOP, "the server redirects again and again, and sends no file", name)
    return as_os_error(error, name)


def _validators(reply: Any) -> tuple[str, str]:
    return reply.headers.get("ETag", ""), reply.headers.get("Last-Modified", "")


def _range(reply: Any) -> tuple[int | None, int | None, int | None]:
    """Return start, last byte and size from ``Content-Range``; None for each that is missing."""
    unit, _, rest = reply.headers.get("Content-Range", "").strip().partition(" ")
    place, _, total = rest.partition("/")
    start, _, last = place.partition("-")
    if unit != "bytes":
        return None, None, None
    return _number(start), _number(last), _number(total)


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
