"""Says what a machine shows of the system that runs on it: its kernel's command line, its root file system,
its release, a marker file, installers that run, and how far systemd and cloud-init are. Python 3.8.

It judges nothing. proc(5), os-release(5), systemctl(1) is-system-running; cloud-init keeps the stage that
runs, null at the end, in status.json. MUSTER_ROOT is another root folder, in tests.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
from typing import Any, BinaryIO

from provisioning.base.onnode.answer import PATH, LocalHost, Unseen, answered, clean_environment

MOST_LINE, MOST_RELEASE, MOST_MARKER, MOST_MOUNTS = 8192, 16384, 65536, 1 << 20
SYSTEMCTL_S = 10.0
INTERPRETERS = re.compile(r"(?:python[0-9.]*|sh|bash|dash|perl|ruby)")
CLOUD_INIT = "/run/cloud-init/status.json"


def root_of(mounts: str) -> list[str]:
    """Type, source and device number of what is mounted last at /; none where nothing is."""
    found = []
    for line in mounts.split("\n"):
        words = line.split(" ")
        if len(words) > 6 and words[4] == "/" and "-" in words[6:]:
            at = words.index("-", 6)
            if len(words) > at + 2:
                found = [words[at + 1], words[at + 2], words[2]]
    return found


def program(words: list[str]) -> str:
    """What a process runs: its program's name, or that of the script or module that an interpreter runs."""
    names = [os.path.basename(word) for word in words[:3]]
    if not names or not INTERPRETERS.fullmatch(names[0]):
        return names[0] if names else ""
    if len(words) > 2 and words[1] == "-m":
        return words[2].split(".")[0]
    return names[1] if len(names) > 1 else ""


def running(host: LocalHost, wanted: list[str]) -> list[str]:
    """Which of these programs run here, by name."""
    found = set()
    for path in glob.glob(glob.escape(host.root) + "/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read(2048).decode("utf-8", "replace").split("\0")
        except OSError:
            continue        # it has ended
        name = program(words)
        if name in wanted:
            found.add(name)
    return sorted(found)


def systemd(host: LocalHost) -> str:
    """What systemctl says of the whole system, in a word; why not, after a colon."""
    try:
        done = subprocess.run(["systemctl", "is-system-running"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SYSTEMCTL_S)
    except OSError as error:
        return ": %s" % error.strerror
    except subprocess.TimeoutExpired:
        return ": no answer within %d s" % SYSTEMCTL_S
    return done.stdout.decode("utf-8", "replace").strip()[:40]


def cloud_init(host: LocalHost) -> str:
    """The stage of cloud-init that runs, "" where none does."""
    try:
        stage = json.loads(host.read(CLOUD_INIT) or "{}")["v1"]["stage"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return str(stage)[:40] if stage else ""


def read(host: LocalHost, path: str, most: int) -> dict[str, Any]:
    """A file's text; None where there is none; and why it could not be read."""
    try:
        return {"text": host.read(path, most), "unseen": ""}
    except Unseen as error:
        return {"text": None, "unseen": str(error)[:200]}


def main(nonce: str, request: bytes, source: BinaryIO) -> None:
    """Answers; the request names the marker file and the programs to look for."""
    host = LocalHost(os.environ.get("MUSTER_ROOT", ""))
    clean_environment()
    if host.root:
        os.environ["PATH"] = "%s/usr/bin:%s" % (host.root, PATH)
    wanted = json.loads(request)
    mounts = read(host, "/proc/self/mountinfo", MOST_MOUNTS)
    release = read(host, "/etc/os-release", MOST_RELEASE)
    if release["text"] is None:
        release = read(host, "/usr/lib/os-release", MOST_RELEASE)
    answered(nonce, {
        "cmdline": read(host, "/proc/cmdline", MOST_LINE), "root": root_of(mounts["text"] or ""),
        "release": release, "marker": read(host, wanted["marker"], MOST_MARKER) if wanted["marker"] else None,
        "running": running(host, wanted["programs"]), "systemd": systemd(host),
        "cloud_init": cloud_init(host)})
