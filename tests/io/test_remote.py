"""URLs: answers of servers and stores, and the errors if there is no file with ranges."""

from __future__ import annotations

import errno
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders.http_server import Served, Server, serving
from tests.builders.large_library import LARGE, SIZE, SMALL, write_large_library
from tests.builders.s3_server import Store, storing
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.errors import Unsupported, UsageError
from fatpack.io import remote
from fatpack.io.open import open_source, resolve_url
from fatpack.io.source import Source
from fatpack.io.url import redact_message, redact_url

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

DATA = os.urandom(200_000)
OTHER = os.urandom(200_000)
LIBRARY = (FIXTURES / "cuda_fatbin" / "hosts" / "single.o").read_bytes()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(remote, "PAUSE", 0.01)
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as settings, storing(settings) as running:
        yield running


def opened(url: str) -> Source:
    return open_source(resolve_url(url))


def test_a_range_is_asked_for_and_no_more(server: Server) -> None:
    with opened(server.put("/x", DATA)) as source:
        assert source.size == len(DATA)
        assert source.view().read(100_000, 5) == DATA[100_000:100_005]
        assert [asked for _, asked in server.requests] == ["bytes=0-16383", "bytes=98304-114687"]
        assert source.view().tobytes() == DATA


def test_listing_half_a_gigabyte_over_http_reads_a_twentieth_in_two_hundred_requests(
    server: Server, tmp_path: Path
) -> None:
    write_large_library(tmp_path / "x.so")
    with (tmp_path / "x.so").open("rb") as file:
        descriptor = file.fileno()
        url = server.serve("/x.so", Served(SIZE, lambda at, size: os.pread(descriptor, size, at)))
        with fatpack.open(url) as library:
            assert len(library.images()) == SMALL + LARGE
            assert not library.findings
    assert len(server.requests) <= 200
    assert server.sent <= SIZE // 20


def test_listing_from_a_store_reads_as_little(store: Store, tmp_path: Path) -> None:
    write_large_library(tmp_path / "x.so", part=20)
    data = (tmp_path / "x.so").read_bytes()
    url = store.put("x.so", data)
    store.forget()
    with fatpack.open(url) as library:
        assert len(library.images()) == (SMALL + LARGE) // 20
        assert not library.findings
    assert len(store.requests) <= 30
    assert 16384 < store.sent <= len(data) // 20
    with fsspec.open(url) as given, fatpack.open(given) as library:
        store.forget()
        assert len(library.images()) == (SMALL + LARGE) // 20
    assert 16384 < store.sent <= len(data) // 20, "the cache of the file reads megabytes for a header"


def test_a_small_file_takes_one_request_with_or_without_ranges(server: Server) -> None:
    for data in (b"", b"x", DATA[:16384]):
        for ways in ((), ("no ranges",), ("no ranges", "no length")):
            server.requests.clear()
            with opened(server.put("/x", data, *ways)) as source:
                assert (source.size, source.view().tobytes()) == (len(data), data)
            assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        (("no ranges",), "it sends the whole file where a range is requested"),
        (("no ranges", "no length"), "it sends the whole file where a range is requested"),
        (("no size",), "it does not tell the size of the file"),
    ],
)
def test_a_server_without_ranges_gets_one_sentence(server: Server, ways: tuple[str, ...], words: str) -> None:
    url = server.put("/lib.so", DATA * 20, *ways)
    with pytest.raises(Unsupported) as caught:
        opened(url)
    expected = f"{url}: the server sends no ranges of bytes: {words}; download the file, and give its path"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (404, FileNotFoundError, "the server answers 404 Not Found"),
        (403, PermissionError, "the server answers 403 Forbidden"),
        (401, PermissionError, "the server answers 401 Unauthorized"),
        (410, FileNotFoundError, "the server answers 410 Gone"),
        (500, OSError, "the server answers 500 Internal Server Error"),
    ],
)
def test_refusals_are_errors_of_the_system(server: Server, status: int, kind: type[OSError], words: str) -> None:
    url = server.put("/lib.so", DATA)
    server.files["/lib.so"].statuses.append(status)
    with pytest.raises(kind) as caught:
        opened(url)
    assert (type(caught.value), caught.value.strerror, caught.value.filename) == (kind, words, url)
    assert len(server.requests) == 1


def test_a_server_that_is_busy_is_asked_again_and_not_forever(server: Server) -> None:
    url = server.put("/lib.so", DATA)
    server.files["/lib.so"].statuses += [503, 429]
    with opened(url) as source:
        server.files["/lib.so"].statuses += [0, 502]  # the connection ends without an answer
        assert source.view().read(90_000, 3) == DATA[90_000:90_003]
    assert len(server.requests) == 6
    server.files["/lib.so"].statuses += [503] * 10
    with pytest.raises(OSError, match="the server answers 503 Service Unavailable"):
        opened(url)
    assert len(server.requests) == 6 + remote.ATTEMPTS


def test_nobody_who_listens_and_nobody_who_answers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionRefusedError) as caught:
        opened(f"http://127.0.0.1:{port}/x")
    assert caught.value.filename == f"http://127.0.0.1:{port}/x"
    monkeypatch.setattr(remote, "PART", 0.2)
    with pytest.raises(TimeoutError, match="timed out"):
        opened(server.put("/slow", DATA, "slow"))


def test_a_server_that_drips_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RATE_AFTER", 0.3)
    with pytest.raises(TimeoutError, match=r"the server sent \d+ bytes in \d+ s: too slow to read from; download"):
        opened(server.put("/drips", DATA, "drips"))


def test_a_command_waits_for_servers_no_longer_than_it_may(server: Server, tmp_path: Path) -> None:
    """Each reply comes in time, and there are many of them: their sum counts."""
    write_large_library(tmp_path / "x.so", part=20)
    url = server.put("/x.so", (tmp_path / "x.so").read_bytes(), "half a second")
    command = [sys.executable, "-m", "fatpack", "inspect", "--timeout", "1", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode not in (0, 1), done.stdout
    assert "servers were waited for 1 s, the limit; --timeout 4 waits longer" in done.stderr
    assert len(server.requests) < 6


def test_redirections_without_an_end_are_told_in_words(server: Server) -> None:
    url = server.put("/a", DATA)
    server.files["/a"].location = server.base + "/a"
    with pytest.raises(OSError, match="the server redirects again and again, and sends no file") as caught:
        opened(url)
    assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("short", "gave 16383 bytes"),
        ("long", "gave 16388 bytes|gave 16385 bytes"),
        ("other range", "the server says it sends 'bytes 98305-114688/200000'"),
        ("cut", "ontent"),
        ("no ranges", "the server sends no ranges of bytes"),
    ],
)
def test_replies_that_are_not_what_was_asked_for_are_one_precise_error(server: Server, way: str, words: str) -> None:
    url = server.put("/x", DATA)
    with opened(url) as source:
        server.files["/x"].ways = frozenset((way,))
        with pytest.raises((OSError, Unsupported), match=words):
            source.view().read(100_000, 1)


def test_a_file_that_changes_between_requests_is_noticed(server: Server, store: Store) -> None:
    url = server.put("/x", DATA)
    for data, etag, words in ((OTHER, '"2"', "another ETag"), (OTHER + b"x", '"1"', "another size"), (b"", "", "size")):
        server.files["/x"].put(DATA, '"1"')
        with opened(url) as source:
            server.files["/x"].put(data, etag)
            with pytest.raises(OSError, match=f"the file changed since it was opened: .*{words}; scan it again"):
                source.view().read(100_000, 1)
    s3 = store.put("x", DATA)
    with opened(s3) as source:
        stored = pickle.dumps(source.view())
        store.put("x", OTHER)
        with pytest.raises(OSError, match="the file changed since it was opened: another ETag"):
            source.view().read(100_000, 1)
    with pytest.raises(OSError, match="the file changed since it was opened: another ETag"):
        pickle.loads(stored)


def test_a_view_that_was_pickled_notices_a_change_too(server: Server) -> None:
    with opened(server.put("/x", DATA)) as source:
        stored = pickle.dumps(source.view().slice(100_000, 10))
    assert len(stored) < 2000
    assert pickle.loads(stored).tobytes() == DATA[100_000:100_010]
    server.files["/x"].put(OTHER, '"2"')
    with pytest.raises(OSError, match="another ETag"):
        pickle.loads(stored).tobytes()


def test_redirections_are_followed_once_and_again_where_their_end_expires(server: Server) -> None:
    target = server.put("/signed", DATA)
    url = server.serve("/x", Served(0, lambda at, size: b"", location=target))
    with opened(url) as source:
        assert source.name == url
        assert source.view().read(50_000, 9) == DATA[50_000:50_009]
        assert [path for path, _ in server.requests].count("/x") == 1
        server.files["/signed"].statuses.append(403)
        assert source.view().read(150_000, 9) == DATA[150_000:150_009]
        assert [path for path, _ in server.requests].count("/x") == 2
    server.serve("/loop", Served(0, lambda at, size: b"", location="/loop"))
    with pytest.raises(OSError, match="loop"):
        opened(server.base + "/loop")


def test_user_and_password_are_sent_and_never_shown(server: Server) -> None:
    server.put("/x", DATA)
    server.files["/x"].key = "Basic dXNlcjpzZWNyZXQ="
    host = server.base.removeprefix("http://")
    with opened(f"http://user:secret@{host}/x?token=hidden#part") as source:
        assert source.name == f"http://{host}/x"
        assert source.view().read(100_000, 1)
        with pytest.raises(PermissionError, match="401") as caught:
            opened(f"http://user:wrongsecret@{host}/x?token=hidden")
    assert "secret" not in str(caught.value) + repr(caught.value) + repr(source.view())
    assert "hidden" not in str(caught.value)


def test_a_password_is_not_sent_to_where_a_redirection_leads(server: Server) -> None:
    with serving() as elsewhere:
        target = elsewhere.put("/x", DATA)
        host = server.base.removeprefix("http://")
        server.serve("/x", Served(0, lambda at, size: b"", location=target.replace("127.0.0.1", "localhost")))
        with opened(f"http://user:secret@{host}/x") as source:
            assert source.view().tobytes() == DATA
        assert set(elsewhere.authorizations) == {""}
        assert all(server.authorizations)


def test_what_a_store_refuses(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        opened("s3://device-code/none.so")
    assert caught.value.filename == "s3://device-code/none.so"
    with pytest.raises(OSError, match="s3://no-such-bucket/x"):
        opened("s3://no-such-bucket/x")


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, url in (("fsspec.asyn", "https://example.com/x"), ("s3fs", "s3://bucket/x")):
        with monkeypatch.context() as settings:
            settings.setitem(sys.modules, module, None)
            with pytest.raises(Unsupported, match=r"pip install fsspec"):
                opened(url)


def test_kinds_of_urls(tmp_path: Path) -> None:
    path = tmp_path / "a b%c"
    path.write_bytes(DATA)
    with fatpack.open(path.as_uri()) as file:
        assert (file.path, file.size) == (str(path), len(DATA))
    with pytest.raises(UsageError, match="is a file of another machine"):
        resolve_url("file://elsewhere/x")
    with pytest.raises(UsageError, match="gs://b/x: no file, and gs:// is not read"):
        resolve_url("gs://key:secret@b/x?y")
    for nothing in ("http:///x", "s3://bucket", "s3://bucket/", "https://"):
        with pytest.raises(UsageError, match="names no file; write https://HOST/PATH or s3://BUCKET/KEY"):
            resolve_url(nothing)
    for plain in ("x(a://b)", "C:\\x", "://", "1x://y", "-"):
        assert resolve_url(plain) is plain


def test_a_path_that_looks_like_a_url_is_a_path_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "http:").mkdir()
    (tmp_path / "http:" / "x").write_bytes(b"here")
    with fatpack.open("http://x") as file:
        assert file.size == 4


def test_names_in_files_make_no_request(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thin archive names files: a URL among them stays a name."""
    url = server.put("/x", LIBRARY)
    monkeypatch.chdir(tmp_path)
    name = f"{url}/\n".encode()
    header = b"%-16s%-12s%-6s%-6s%-8s%-10s`\n"
    table = header % (b"//", b"", b"", b"", b"", str(len(name)).encode()) + name + b"\n" * (len(name) % 2)
    member = header % (b"/0", b"0", b"0", b"0", b"644", str(len(LIBRARY)).encode())
    (tmp_path / "thin.a").write_bytes(b"!<thin>\n" + table + member)
    with fatpack.open("thin.a") as file:
        assert [item.code for item in file.findings] == ["FP2103"]
    assert server.requests == []


def test_what_is_shown_of_urls() -> None:
    assert redact_url("https://me:pw@host:1/a/b.so?sig=1#x") == "https://host:1/a/b.so"
    assert redact_url("https://host?sig=1") == "https://host"
    assert redact_message("cannot get 'https://me:pw@host/x?sig=1', sorry") == "cannot get 'https://host/x', sorry"
