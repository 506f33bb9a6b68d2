"""The Docker facts: the daemon's own report (`docker info`), and the images that it holds (`docker images`).

The client is given the node's own socket, so that neither DOCKER_HOST nor a context of the login makes it ask
another machine. Fields of the output are those of moby's api/types/system.Info (SystemInfo of the Engine
API): CDISpecDirs since API 1.44, DiscoveredDevices since 1.50. Placeholders of a format are those that
docs.docker.com documents for `docker image ls`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from healthcheck.facts.base import Captures, fact, hung, why
from healthcheck.facts.limits import DOCKER_WARNINGS
from healthcheck.facts.parsing import json_object, member
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, changed, partial_if
from healthcheck.model.probes import KIB, MIB, Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome
from inventory.text import clean

SOCKET = "unix:///var/run/docker.sock"
CLIENT = ("docker", "--host", SOCKET)
# Go's net/http and context, in which the client and its daemon are written, where a time of theirs is over.
_PODMAN = "docker is podman's stand-in here (podman-docker), so there is no Docker daemon to ask"
_DENIED = "docker: permission denied on the daemon's socket (needs root or the docker group)"
_SILENT = "the Docker daemon did not answer in time"
_LATE = ("context deadline exceeded", "client.timeout exceeded")
INFO = Probe("docker.info", ProbeKind.COMMAND, argv=(*CLIENT, "info", "--format", "{{json .}}"), seconds=10.0,
             limit=1 * MIB, root=True)
_ROW = ('{"id":{{json .ID}},"container":{{json .Names}},"image":{{json .Image}},"state":{{json '
        '.State}},"status":{{json .Status}}}')
PS = Probe("docker.ps", ProbeKind.COMMAND, argv=(*CLIENT, "ps", "--all", "--format", _ROW),
           seconds=10.0, limit=512 * KIB, root=True)
_IMAGE = '{"repository":{{json .Repository}},"tag":{{json .Tag}},"digest":{{json .Digest}},"id":{{json .ID}}}'
IMAGES = Probe("docker.images", ProbeKind.COMMAND, seconds=10.0, root=True,
               argv=(*CLIENT, "images", "--digests", "--no-trunc", "--format", _IMAGE))


class Docker(Fact):
    """The Docker daemon. `answers` is False, with the client's message in `trouble`, when it could not be
    reached.

    The other fields of an absent or dead daemon are UNSUPPORTED, so that only `answers` reports it.
    `runtimes` are their names, `programs` (name, program) of those that are run by a program of their own;
    `containerd` and `runc` are the builds that the daemon works with; `cdi` says whether it reads CDI
    specifications, which no version before 25 does.
    """

    name: str
    answers: bool
    trouble: str
    version: str
    storage_driver: str
    cgroup_driver: str
    cgroup_version: str
    root: str
    runtimes: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]
    default_runtime: str
    log_driver: str
    containerd: str
    runc: str
    cdi: bool
    warnings: tuple[str, ...]
    live_restore: bool


class DockerSilence(Fact):
    """What the Docker daemon did not answer in time: the client's commands. UNSUPPORTED without a client."""

    name: str
    commands: tuple[str, ...]


class Image(Fact):
    """One image under one tag. `digest` is the registry's, "" for an image that was never in one; `id` is
    that of its configuration."""

    name: str
    digest: str
    id: str


class Images(Fact):
    """The tagged images that the daemon holds, in its order. UNSUPPORTED where there is no daemon."""

    name: str
    listed: tuple[Image, ...]


def denied(text: str) -> bool:
    """Whether this is the message of a client that may not open the socket, and so has measured nothing."""
    return "permission denied" in text.lower()


def no_client(capture: Capture) -> bool:
    """Whether there is no client of Docker: none at all, or podman's stand-in for it (podman-docker), which
    knows no --host, or answers with podman's own document (since version 4)."""
    if capture.outcome is not Outcome.DONE:
        return capture.outcome is Outcome.MISSING
    if capture.exit not in (0, None):
        return "podman" in capture.stderr.lower()
    return isinstance(member(_info(capture.text), "host", "buildahVersion"), str)


def no_daemon(capture: Capture) -> bool:
    """Whether there is no client, or no daemon at its socket: then there are no containers."""
    if no_client(capture):
        return True
    return (capture.outcome is Outcome.DONE and capture.exit != 0
            and "cannot connect to the docker daemon" in capture.stderr.lower())


def silent(probe: Probe, capture: Capture | None) -> bool:
    """Whether the daemon did not answer this command: within our limit, or within the client's own."""
    if capture is None or capture.outcome is not Outcome.DONE:
        return hung(probe, capture)
    errors = capture.stderr + (capture.text if capture.exit or '"ServerErrors"' in capture.text else "")
    return any(words in errors.lower() for words in _LATE)


def rows(captures: Captures, probe: Probe) -> tuple[list[dict[str, Any]], str] | None:
    """The objects that a client printed, one a line, and why they are incomplete, if they are; None where
    there is no daemon. What `docker info` shows of the client counts, too.

    Raises Unread where the client failed.
    """
    capture, info = captures.capture(probe), captures.capture(INFO)
    if info is not None and no_client(info):
        return None
    if silent(probe, capture):
        raise Unread(_SILENT, ("docker",))
    if capture is not None and no_daemon(capture):
        return None
    if capture is None or capture.outcome not in (Outcome.DONE, Outcome.TRUNCATED):
        raise Unread(why(probe, capture))
    if capture.exit not in (0, None):
        if denied(capture.stderr):
            raise Unread(_DENIED)
        raise Unread(why(probe, capture), ("docker",))
    found: list[dict[str, Any]] = []
    strange = 0
    for line in capture.text.splitlines():
        if line.startswith("{"):
            value = json_object(line)
            found += [] if value is None else [value]
            strange += value is None
        elif line.strip():
            strange += 1
    if capture.outcome is Outcome.TRUNCATED:
        return found, why(probe, capture)
    return (found, f"docker {probe.argv[3]} printed {strange} lines that are not in its documented format"
            if strange else "")


@fact("docker", INFO)
def docker(captures: Captures) -> Docker:
    """What the client reports of the daemon. A client that may not open the socket has measured nothing."""
    capture = captures.capture(INFO)
    if capture is not None and no_client(capture):
        missing = why(INFO, capture) if capture.outcome is Outcome.MISSING else _PODMAN
        return _without(Unmeasured(missing), "", UNSUPPORTED)
    if silent(INFO, capture):
        raise Unread(_SILENT, ("docker",))
    if capture is None or capture.outcome is not Outcome.DONE:
        raise Unread(why(INFO, capture))
    info = _info(capture.text)
    # Clients before 23 exit with 0 and put the failure into ServerErrors; later ones exit with 1 and print
    # it.
    listed = info.get("ServerErrors") or []
    errors = [str(error) for error in listed] if isinstance(listed, list) else [str(listed)]
    if capture.exit != 0 and not errors:
        errors = capture.stderr.strip().splitlines()[-1:]
        if not errors:
            raise Unread(why(INFO, capture))
    if any(denied(error) for error in errors) or (capture.exit != 0 and denied(capture.stderr)):
        raise Unread(_DENIED)
    if errors:
        gone = any("cannot connect to the docker daemon" in error.lower() for error in errors)
        nothing: Any = UNSUPPORTED if gone else Unmeasured("the Docker daemon does not answer",
                                                              asked=("docker",))
        return _without(False, errors[0].removeprefix("ERROR: ")[:300], nothing)
    version = _given(info, "ServerVersion")
    if isinstance(version, Unmeasured):
        raise Unread("docker info names no server version, so no daemon is known to have answered")
    return Docker(
        "docker", True, "", version=version, storage_driver=_given(info, "Driver"),
        cgroup_driver=_given(info, "CgroupDriver"),
        cgroup_version=_given(info, "CgroupVersion"), root=_given(info, "DockerRootDir"),
        runtimes=_runtimes(info), programs=_programs(info), default_runtime=_given(info, "DefaultRuntime"),
        log_driver=_given(info, "LoggingDriver"), containerd=_build(info, "ContainerdCommit"),
        runc=_build(info, "RuncCommit"), cdi=_cdi(info),
        warnings=_warnings(info), live_restore=_given(info, "LiveRestoreEnabled", bool),
    )


@fact("docker_silence", INFO, PS)
def docker_silence(captures: Captures) -> DockerSilence:
    """The commands that the daemon did not answer; raises Unread where one was not asked for all its time."""
    asked = {"docker info": (INFO, captures.capture(INFO)), "docker ps": (PS, captures.capture(PS))}
    if any(capture is not None and no_client(capture) for _, capture in asked.values()):
        return DockerSilence.absent("docker")
    found = tuple(name for name, (probe, capture) in asked.items() if silent(probe, capture))
    for probe, capture in () if found else asked.values():
        if capture is None or capture.outcome not in (Outcome.DONE, Outcome.TRUNCATED) or (
                capture.exit not in (0, None) and (denied(capture.stderr) or not capture.stderr.strip())):
            raise Unread(why(probe, capture))
    return DockerSilence("docker", found)


def _without(answers: Any, trouble: str, gone: Any) -> Docker:
    return changed(Docker.absent("docker", gone), answers=answers, trouble=trouble)


def _info(text: str) -> dict[str, Any]:
    """The JSON object of the last line that holds one; clients print warnings before it."""
    line = next((line for line in reversed(text.splitlines()) if line.startswith("{")), "")
    return json_object(line) or {}


def _given(info: dict[str, Any], key: str, kind: type = str) -> Any:
    """The value, which must be of this type and, unless it is a flag, not empty."""
    value = info.get(key)
    given = isinstance(value, kind) and (value or kind is bool)
    return value if given else Unmeasured(f"docker info has no {key}")


def _runtimes(info: dict[str, Any]) -> Any:
    value = _given(info, "Runtimes", dict)
    return value if isinstance(value, Unmeasured) else tuple(sorted(value))


def _programs(info: dict[str, Any]) -> Any:
    names = _runtimes(info)
    if isinstance(names, Unmeasured):
        return names
    held = {name: info["Runtimes"][name] for name in names}
    return tuple((clean(name, 64), clean(runtime["path"], 200)) for name, runtime in held.items()
                 if isinstance(runtime, dict) and isinstance(runtime.get("path"), str))


def _build(info: dict[str, Any], key: str) -> Any:
    """The commit of a part of the daemon; UNSUPPORTED where its packagers leave that out."""
    commit = member(info, key, "ID")
    return clean(commit, 80) if isinstance(commit, str) and commit not in ("", "N/A") else UNSUPPORTED


def _cdi(info: dict[str, Any]) -> Any:
    value = info.get("CDISpecDirs")
    return (bool(value) if value is None
            or isinstance(value, list) else Unmeasured("docker info has no list of CDISpecDirs"))


def _warnings(info: dict[str, Any]) -> Any:
    """The daemon's warnings; null where it has none."""
    value = info.get("Warnings", "")
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        return Unmeasured("docker info has no Warnings")
    return tuple(clean(each.removeprefix("WARNING: "), 200) for each in (value or [])[:DOCKER_WARNINGS])


@fact("docker_images", IMAGES, besides=(INFO,))
def docker_images(captures: Captures) -> Any:
    """The images with a tag."""
    listed = rows(captures, IMAGES)
    if listed is None:
        return Images.absent("images")
    found, trouble = listed
    images = tuple(_tagged(found))
    lost = sum(1 for row in found if not _whole(row))
    if lost and not trouble:
        trouble = f"docker images printed {lost} images that are not in its documented format"
    return partial_if(Images("images", images), trouble)


def _whole(row: dict[str, Any]) -> bool:
    return all(isinstance(row.get(key), str) for key in ("repository", "tag", "digest", "id"))


def _tagged(found: list[dict[str, Any]]) -> Iterator[Image]:
    for row in found:
        if _whole(row) and "<none>" not in (row["repository"], row["tag"]):
            digest = "" if row["digest"] == "<none>" else clean(row["digest"], 100)
            yield Image(f"{clean(row['repository'], 200)}:{clean(row['tag'], 130)}", digest=digest,
                        id=clean(row["id"], 100))
