"""Looks at images on this node, and pulls missing ones, alone and bounded. Python 3.8. /run/muster-images is
locked while a pull is at work: who comes meanwhile pulls nothing. The client is killed with the line to the
head; what it had fetched stays in the runtime, which removes it after a day or goes on from there."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import sys
import time
import zlib
from typing import Any, BinaryIO, Dict, List

from provisioning.images.onnode.children import Children, Lost, Stopped, ToolError, last_line, masked
from provisioning.images.onnode.runtimes import runtime

LOCK = "/run/muster-images"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A site's way out, which a client that fetches by itself goes by.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
MIB = 1 << 20


class Refused(Exception):
    """Nothing was begun, and why."""


def environment(path: str) -> Dict[str, str]:
    """What runtimes' clients get: the system's programs, English, the user's own credentials."""
    kept = {name: os.environ[name] for name in PROXIES if name in os.environ}
    return dict(kept, PATH=path or PATH, LC_ALL="C", HOME=pwd.getpwuid(os.geteuid()).pw_dir)


def judged(through: Any, wanted: Any, stored: Any) -> Dict[str, Any]:
    """How one wanted image stands: present, incomplete, other (the same tag, or without one the same
    repository, has another digest) or absent."""
    same = [one for one in stored if one.repository == wanted["repository"]]
    tagged = sorted({one.digest for one in same if wanted["tag"] and one.tag == wanted["tag"]})
    others = tagged if wanted["tag"] else sorted({one.digest for one in same})
    others = [digest for digest in others if digest != wanted["digest"]]
    found: Dict[str, Any] = {"state": "absent", "others": others[:8], "why": ""}
    here = [one for one in same if one.digest == wanted["digest"]]
    if here:
        lacks = [through.incomplete(one) for one in here]
        found["state"] = "incomplete" if all(lacks) else "present"
        found["why"] = "" if not all(lacks) else lacks[0][:300]
    elif others:
        found["state"] = "other"
    return found


def look(through: Any, wanted: Any) -> List[Dict[str, Any]]:
    """How all of them stand; raises ToolError."""
    stored = through.listed()
    return [judged(through, one, stored) for one in wanted]


def free_of(root: str) -> Any:
    """The bytes of the file system there: those free for programs, and all."""
    try:
        found = os.statvfs(root)
    except OSError as error:
        raise ToolError("%s: %s" % (root, error.strerror)) from None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def pulled(through: Any, children: Children, wanted: Any, asked: Any) -> Dict[str, Any]:
    """Pulls one image where it is not there, and looks again: only what is read afterwards counts."""
    before = look(through, [wanted])[0]
    if before["state"] == "present":
        return dict(before, did="there", seconds=0.0)
    root = through.root()
    free, total = free_of(root)
    keep = total * asked["keep"] // 100
    if free < keep + wanted["size"]:
        beside = " beside the image's %d MiB" % (wanted["size"] // MIB) if wanted["size"] else ""
        why = "%d MiB are free at %s, and %d MiB are to stay free%s" % (
            free // MIB, root, keep // MIB, beside)
        return dict(before, did="no space", seconds=0.0, why=why)

    def watch() -> str:
        left = free_of(root)[0]
        return "" if left >= keep else "ended, because only %d MiB were left free at %s" % (left // MIB, root)

    began, trouble, did = time.monotonic(), "", "failed"
    try:
        code, _, err = children.ran(
            through.pull("%s@%s" % (wanted["repository"], wanted["digest"])), asked["seconds"], watch, False)
        trouble = last_line(err) or "exit %d" % code if code else ""
    except Stopped as error:
        trouble = str(error)
        did = "no space" if watch() else did
    except ToolError as error:
        trouble = str(error)
    seconds = round(time.monotonic() - began, 2)
    after = look(through, [wanted])[0]
    if after["state"] == "present":
        return dict(after, did="pulled", seconds=seconds)
    why = trouble or "the pull ended well, and the digest is not there"
    return dict(after, did=did, seconds=seconds, why=why[:400])


def locked(path: str) -> int:
    """The lock, taken; raises Refused where another holds it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused("%s: %s" % (path, error.strerror)) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        since = masked(os.pread(fd, 200, 0).decode("utf-8", "replace"))
        raise Refused("another pull is at work here%s" % (since and " since " + since)) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()).encode(), 0)
    return fd


def report(asked: Any, numbers: Any, children: Children) -> Dict[str, Any]:
    """The answer: how the images of these numbers stand, and what was done about them."""
    wanted = [asked["images"][number] for number in numbers]
    answer: Dict[str, Any] = {"runtime": "", "why": "", "images": []}
    try:
        through = runtime(children, asked)
        answer["runtime"] = through.name
        if not asked["pull"]:
            answer["images"] = look(through, wanted)
            return answer
        if os.geteuid():
            raise Refused("this needs root here: log in as root, or go through sudo with --become or "
                          "`privilege: become` in the inventory")
        children.held = [locked(asked["lock"] or LOCK)]
        for one in wanted:
            answer["images"].append(pulled(through, children, one, asked))
    except ToolError as error:
        answer["why"] = str(error)
    except Refused as error:
        answer.update(why=str(error), refused=True)
    finally:
        for fd in children.held:        # who has the answer may begin the next
            os.close(fd)
    return answer


def main(nonce: str, request: bytes, source: BinaryIO) -> None:
    """Answers in one frame; without an answer where the head is gone."""
    os.umask(0o022)
    asked = json.loads(request)
    given = environment(asked["path"])
    os.environ.clear()
    os.environ.update(given)
    numbers = [int(word) for word in sys.argv[-1].split(",") if word]
    try:
        body = zlib.compress(json.dumps(report(asked, numbers, Children(source.fileno(), given))).encode())
    except Lost:
        return
    sys.stdout.write("muster:%s:frame %d %s\n" % (nonce, len(body), hashlib.sha256(body).hexdigest()))
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
