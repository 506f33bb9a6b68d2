"""References of container images: HOST/REPOSITORY:TAG@sha256:DIGEST, on the head as on nodes. Python 3.8.

The grammar and the short names of Docker Hub are those of github.com/distribution/reference.
"""

from __future__ import annotations

import re
from typing import Optional, Tuple

MOST = 512
_COMPONENT = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\])(?::[0-9]{1,5})?")
_REPOSITORY = re.compile(r"%s(?:/%s){0,20}" % (_COMPONENT, _COMPONENT))
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def split(text: str) -> Optional[Tuple[str, str, str]]:
    """The repository by its full name, the tag and the digest, "" where there is none; None for what is no
    reference. A name and password before the host make it none."""
    if len(text) > MOST:
        return None
    name, at, digest = text.partition("@")
    if at and not DIGEST.fullmatch(digest):
        return None
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        return None
    host, slash, rest = (head + slash + last).partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, rest = "docker.io", head + ("/" if head else "") + last
    if host in ("docker.io", "index.docker.io"):
        host = "docker.io"
        rest = rest if "/" in rest else "library/" + rest
    if not _HOST.fullmatch(host) or not _REPOSITORY.fullmatch(rest):
        return None
    return host + "/" + rest, tag, digest
