"""A small registry of container images on loopback, and images for it: it can be slow, die in the middle,
lie, and ask for a password.

Pulling as in the OCI distribution specification 1.1 (GET and HEAD of /v2/, manifests and blobs, with ranges);
images as in the OCI image specification 1.1 (index, manifest, configuration, layers as tar+gzip).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import random
import re
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.testbed.webserver import Answers, answering

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_PATH = re.compile(r"/v2/([a-z0-9._/-]+)/(manifests|blobs)/([A-Za-z0-9:._-]+)")
_CHUNK = 64 * 1024


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Image:
    """An image: its manifest, and the blobs that this names."""

    manifest: bytes
    blobs: dict[str, bytes]
    tar: bytes      # its one layer, not compressed

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def image(seed: str, size: int = 1000) -> Image:
    """An image with one layer: a file of `size` random bytes, which do not compress; equal seeds and sizes
    make equal images."""
    data = random.Random(seed).randbytes(size)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        entry = tarfile.TarInfo("data")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    layer = gzip.compress(raw.getvalue(), 1, mtime=0)
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Cmd": ["/data"]},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(raw.getvalue())]}}).encode()
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": _MANIFEST,
        "config": {"mediaType": _CONFIG, "digest": digest_of(config), "size": len(config)},
        "layers": [{"mediaType": _LAYER, "digest": digest_of(layer), "size": len(layer)}]}).encode()
    return Image(manifest, {digest_of(config): config, digest_of(layer): layer}, raw.getvalue())


@dataclass
class Registry:
    """A running registry. What is set while it runs holds for the requests that come."""

    port: int
    images: dict[str, Image] = field(default_factory=dict)      # by NAME:TAG
    slow: float = 0.0               # bytes a second of a blob; 0 for as fast as it goes
    dies_after: int | None = None   # bytes of a layer, then the registry is gone
    lies: str = ""                  # "manifest" or "blob": sends another than was asked for
    password: str = ""              # USER:PASSWORD that it wants
    requests: list[str] = field(default_factory=list)
    dead: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)   # of a layer something was sent
    serving: set[int] = field(default_factory=set)      # the threads that send a layer now

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def add(self, name: str, made: Image) -> str:
        """Serves an image under NAME:TAG; its full reference, with tag and digest."""
        self.images[name] = made
        return f"{self.host}/{name}@{made.digest}"

    def found(self, name: str, kind: str, reference: str) -> bytes | None:
        """What a request asks for."""
        for each, one in self.images.items():
            repository, _, tag = each.partition(":")
            if repository != name:
                continue
            if kind == "manifests" and reference in (tag, one.digest):
                return one.manifest
            if kind == "blobs" and reference in one.blobs:
                return one.blobs[reference]
        return None


@contextmanager
def registry() -> Iterator[Registry]:
    made: Registry

    class Handler(Answers):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(False)

        def do_GET(self) -> None:
            self.answer(True)

        def answer(self, body: bool) -> None:
            made.requests.append(f"{self.command} {self.path}")
            if made.dead.is_set():
                self.close_connection = True
                return
            if (made.password and self.headers.get("Authorization")
                != f"Basic {base64.b64encode(made.password.encode()).decode()}"):
                self.sent(401, b"{}", "application/json", body, {"WWW-Authenticate": 'Basic realm="test"'})
                return
            if self.path in ("/v2/", "/v2"):
                self.sent(200, b"{}", "application/json", body)
                return
            match = _PATH.fullmatch(self.path.partition("?")[0])
            data = made.found(match[1], match[2], match[3]) if match else None
            if match is None or data is None:
                self.sent(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', "application/json", body)
            elif match[2] == "manifests":
                if made.lies == "manifest":
                    data = image("another").manifest
                self.sent(200, data, _MANIFEST, body,
                          {"Docker-Content-Digest": match[3] if ":" in match[3] else digest_of(data)})
            else:
                if made.lies == "blob" and len(data) > 900:
                    data = data[:-400] + bytes(400)
                self.blob(data, body)

        def blob(self, data: bytes, body: bool) -> None:
            begin = re.fullmatch(r"bytes=(\d+)-\d*", self.headers.get("Range", ""))
            part = data[int(begin[1]):] if begin else data
            more = {"Content-Range": f"bytes {begin[1]}-{len(data) - 1}/{len(data)}"} if begin else {}
            self.sent(206 if begin else 200, part, "application/octet-stream", body, more)

        def sent(self, code: int, data: bytes, kind: str, body: bool,
                 headers: dict[str, str] | None = None) -> None:
            self.send_response(code)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(data)),
                                **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                made.serving.add(threading.get_ident())
                try:
                    self.body(data, kind)
                finally:
                    made.serving.discard(threading.get_ident())

        def body(self, data: bytes, kind: str) -> None:
            large = kind == "application/octet-stream" and len(data) > 900
            for at in range(0, len(data), _CHUNK):
                if large and made.dies_after is not None and at >= made.dies_after:
                    made.dead.set()
                if made.dead.is_set():
                    self.close_connection = True
                    return
                try:
                    self.wfile.write(data[at:at + _CHUNK])
                except OSError:     # who asked has gone
                    self.close_connection = True
                    return
                if large:
                    made.started.set()
                    if made.slow:
                        time.sleep(_CHUNK / made.slow)

    with answering(Handler) as port:
        made = Registry(port)
        try:
            yield made
        finally:
            made.dead.set()
