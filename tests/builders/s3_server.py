"""A server that speaks the protocol of S3, moto's, on this machine; it counts requests and bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BUCKET = "device-code"


class Store:
    """Objects by their key. Each request stands in ``requests`` with its method and range."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        self.requests: list[tuple[str, str]] = []
        self.sent = 0
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")

    def put(self, key: str, data: bytes) -> str:
        """Store an object and return its URL."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=data)
        return f"s3://{BUCKET}/{key}"

    def forget(self) -> None:
        """Count from here."""
        self.requests.clear()
        self.sent = 0


@contextmanager
def storing(settings: pytest.MonkeyPatch) -> Iterator[Store]:
    """Run a store on a free port, and let the environment name it, as its user would."""
    s3fs = pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server")
    from werkzeug.serving import make_server

    names = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in names.items():
        settings.setenv(name, value)
    settings.delenv("AWS_PROFILE", raising=False)
    app = server.DomainDispatcherApplication(server.create_backend_app)
    stores: list[Store] = []

    def counting(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        for block in app(environ, start):
            if stores:
                stores[0].sent += len(block)
            yield block

    def counted(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if stores:
            stores[0].requests.append((environ["REQUEST_METHOD"], environ.get("HTTP_RANGE", "")))
        return counting(environ, start)

    http = make_server("127.0.0.1", 0, counted, threaded=True)
    endpoint = f"http://127.0.0.1:{http.server_port}"
    settings.setenv("AWS_ENDPOINT_URL", endpoint)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    s3fs.S3FileSystem.clear_instance_cache()  # those of another store, by the same settings
    try:
        stores.append(Store(endpoint))
        stores[0].client.create_bucket(Bucket=BUCKET)
        yield stores[0]
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
