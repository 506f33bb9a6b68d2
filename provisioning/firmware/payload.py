"""Reads what is to be sent, and compares it with its digest before anything is sent anywhere."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO

from inventory.errors import UsageError
from inventory.text import clean
from provisioning.bmc.base import FirmwareImage
from provisioning.bringup.policy.model import FirmwarePayload

MOST_BYTES = 1 << 30        # the packages of an HGX board have some 100 MB
_PIECE = 1 << 20
_URL_S = 60.0


def image_of(entry: str, payload: FirmwarePayload, *, staged: bool) -> FirmwareImage:
    """What is sent for this payload. What is at a URL is read here once and compared; the controller fetches
    it from there itself. Raises UsageError for what cannot be read, or has another digest."""
    where = str(payload.file) if payload.file is not None else str(payload.url)
    digest, pieces = hashlib.sha256(), []
    try:
        for piece in _pieces(payload):
            digest.update(piece)
            if payload.file is not None:
                pieces.append(piece)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise UsageError(
            f"payload of {entry}: {clean(where, 200)} cannot be read: {clean(error, 160)}") from None
    if digest.hexdigest() != payload.sha256:
        raise UsageError(f"payload of {entry}: {clean(where, 200)} has the digest {digest.hexdigest()}, and "
                         f"bringup.yaml says {payload.sha256}; nothing was sent")
    name = where.rpartition("/")[2]
    return FirmwareImage(name, b"".join(pieces) if payload.file is not None else None, payload.url, staged)


def _pieces(payload: FirmwarePayload) -> Iterator[bytes]:
    with _opened(payload) as source:
        read = 0
        while piece := source.read(_PIECE):
            read += len(piece)
            if read > MOST_BYTES:
                raise ValueError(f"it is over the limit of {MOST_BYTES >> 20} MiB")
            yield piece


def _opened(payload: FirmwarePayload) -> IO[bytes]:
    if payload.file is not None:
        return payload.file.open("rb")
    if not str(payload.url).startswith(("http://", "https://")):
        raise ValueError("expected an http(s) address")
    opened: IO[bytes] = urllib.request.urlopen(str(payload.url), timeout=_URL_S)  # noqa: S310  (http or https)
    return opened
