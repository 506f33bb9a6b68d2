"""The containerd facts, for nodes that run containers without Docker: who uses it, whether it answers, and
whether it is ready for a kubelet.

Both clients are given the node's own socket. `ctr version` prints the server's version below "Server:"
(containerd, cmd/ctr/commands/ version); `crictl info` prints the runtime's StatusResponse of the CRI
(kubernetes-sigs/cri-tools, docs/crictl.md; cri-api RuntimeCondition: RuntimeReady and NetworkReady). A
kubelet is given its runtime as containerRuntimeEndpoint in its configuration, or by
--container-runtime-endpoint (kubernetes.io, kubelet and KubeletConfiguration); kubeadm writes either.
"""

from __future__ import annotations

import json
import re
from typing import Any

from healthcheck.facts.base import Captures, fact, hung, why
from healthcheck.facts.files import DeviceOutput
from healthcheck.facts.parsing import member
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread
from healthcheck.model.probes import KIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

SOCKET = "/run/containerd/containerd.sock"
VERSION = Probe(
    "containerd.version", ProbeKind.COMMAND,
    argv=("ctr", "--address", SOCKET, "--connect-timeout", "5s", "--timeout", "5s", "version"),
    seconds=10.0, root=True)
CRI = Probe(
    "containerd.cri", ProbeKind.COMMAND,
    argv=("crictl", "--runtime-endpoint", f"unix://{SOCKET}", "--timeout", "5s", "info"), seconds=10.0,
    root=True)
# A folder for each namespace in which containerd has tasks. It asks each task's shim for its state, for 2 s
# (io.containerd.timeout.task.state), and lists one that does not answer as UNKNOWN; one that has ended it
# leaves out (containerd, services/tasks/local.go).
TASKS = Probe(
    "containerd.tasks", ProbeKind.COMMAND, each=("/run/containerd/io.containerd.runtime.v2.task/*",),
    argv=("ctr", "--address", SOCKET, "--connect-timeout", "5s", "--namespace", "{name}", "--timeout", "20s",
          "tasks", "list"), seconds=40.0, each_s=20.0, most=8, root=True)
KUBELET = Probe(
    "containerd.kubelet", ProbeKind.FILES, limit=256 * KIB, root=True,
    paths=("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet",
           "/etc/sysconfig/kubelet", "/etc/kubernetes/kubelet/config.json",
           "/etc/kubernetes/kubelet-config.yaml"))
NERDCTL = Probe("containerd.nerdctl", ProbeKind.COMMAND, argv=("nerdctl", "--version"), seconds=5.0,
                root=True)
_ENDPOINT = re.compile(r"(?:unix://|(?<![\w./]))(?:/var)?/run/containerd/containerd\.sock\b")


class Containerd(Fact):
    """The containerd daemon. `used`: a kubelet or nerdctl uses it at its socket. `answers` is False, with the
    client's message in `trouble`, when it could not be reached, or did not answer in time."""

    name: str
    used: bool
    answers: bool
    trouble: str
    version: str


class CriReady(Fact):
    """What the runtime reports to a kubelet, if one uses it: whether it answers in time, whether it and its
    network are ready, and its messages where not."""

    name: str
    used: bool
    answers: bool
    runtime: bool
    network: bool
    words: tuple[str, ...]


class TaskNamespace(Fact):
    """The tasks of containerd in one of its namespaces (Docker's are in moby, a kubelet's in k8s.io): the
    containers whose shim did not answer it."""

    name: str
    silent: tuple[str, ...]


_SERVER = re.compile(r"(?m)^Server:\n(?:[ \t]+.*\n)*?[ \t]+Version:[ \t]+(\S{1,100})[ \t]*$")


def _kubelet(captures: Captures) -> Any:
    """Whether a kubelet is configured to use containerd at its socket."""
    try:
        files = captures.files(KUBELET)
        return any(_ENDPOINT.search(files.text(path)) for path in KUBELET.paths if files.has(path))
    except Unread as error:
        return Unmeasured(str(error))


def _used(captures: Captures) -> Any:
    by_kubelet = _kubelet(captures)
    nerdctl = captures.capture(NERDCTL)
    if by_kubelet is True or captures.outcome(NERDCTL) is Outcome.DONE:
        return True
    if isinstance(by_kubelet, Unmeasured) or captures.outcome(NERDCTL) is Outcome.MISSING:
        return by_kubelet
    return Unmeasured(why(NERDCTL, nerdctl))


@fact("containerd", VERSION, KUBELET, NERDCTL)
def containerd(captures: Captures) -> Containerd:
    """What containerd's client reports of the daemon; UNSUPPORTED where the client is not installed."""
    capture, used = captures.capture(VERSION), _used(captures)
    gone: Any = UNSUPPORTED
    # A client that lies about on a node of Docker or CRI-O may fail in any way.
    if used is False or captures.outcome(VERSION) is Outcome.MISSING:
        return Containerd("containerd", used, answers=gone, trouble="", version=gone)
    if hung(VERSION, capture):
        return Containerd("containerd", used, False, f"no answer within {VERSION.seconds:g} s", version=gone)
    if capture is None or capture.outcome is not Outcome.DONE:
        raise Unread(why(VERSION, capture))
    error = capture.stderr.strip().rpartition("\n")[2]
    if capture.exit != 0:
        if "permission denied" in error.lower() or not error:
            raise Unread("ctr: permission denied on containerd's socket (needs root)"
                         if error else why(VERSION, capture))
        return Containerd("containerd", used, False, clean(error.removeprefix("ctr: "), 300), version=gone)
    match = _SERVER.search(capture.text)
    if match is None:
        raise Unread("ctr version names no server, so no daemon is known to have answered")
    return Containerd("containerd", used, True, "", clean(match[1]))


# gRPC's words for a call whose time was over, which crictl prints.
_LATE = ("deadlineexceeded", "context deadline exceeded")


@fact("cri_ready", CRI, KUBELET)
def cri_ready(captures: Captures) -> CriReady:
    """The two conditions that a kubelet asks for; UNSUPPORTED where crictl is not installed."""
    capture, used = captures.capture(CRI), _kubelet(captures)
    gone: Any = UNSUPPORTED
    if used is False or captures.outcome(CRI) is Outcome.MISSING:
        return CriReady("CRI", used, answers=gone, runtime=gone, network=gone, words=())
    failed = capture is not None and capture.outcome is Outcome.DONE and capture.exit not in (0, None)
    late = failed and capture is not None and any(words in capture.stderr.lower() for words in _LATE)
    if late or hung(CRI, capture):
        silent: Any = Unmeasured("the CRI did not answer in time", asked=("containerd", "CRI"))
        return CriReady("CRI", used, answers=False, runtime=silent, network=silent, words=())
    if failed:
        raise Unread(why(CRI, capture), ("containerd",))
    try:
        document = json.loads(captures.text(CRI))
    except RecursionError:
        document = None
    conditions = member(document, "status", "conditions")
    if not isinstance(conditions, list):
        raise Unread("crictl info holds no status.conditions")
    found = {str(each.get("type")): each for each in conditions if isinstance(each, dict)}
    words = tuple(clean(f"{kind}: {each.get('reason') or ''} {each.get('message') or ''}", 200)
                  for kind, each in found.items() if each.get("status") is not True)
    return CriReady("CRI", used, answers=True, runtime=_condition(found, "RuntimeReady"),
                    network=_condition(found, "NetworkReady"), words=words[:4])


_TASK = re.compile(r"(\S{1,128})[ \t]+[0-9]{1,10}[ \t]+([A-Z_]{1,20})")


@fact("task_namespaces", TASKS, each="task_namespace")
def task_namespaces(captures: Captures) -> Any:
    """What `ctr tasks list` prints of each; absent without tasks or client."""
    if captures.outcome(TASKS) is Outcome.MISSING:
        return (TaskNamespace.absent("tasks"),)
    found = tuple(_namespace(path.rpartition("/")[2], output)
                  for path, output in captures.devices(TASKS).items())
    return found or (TaskNamespace.absent("tasks"),)


def _namespace(name: str, output: DeviceOutput | Unmeasured) -> TaskNamespace:
    silent: Any = output
    if isinstance(output, DeviceOutput):
        heading, *lines = output.text.splitlines() or [""]
        rows = [_TASK.fullmatch(line.strip()) for line in lines]
        if output.exit != 0:
            silent = Unmeasured(f"ctr tasks list ended with exit status {output.exit}: "
                                f"{clean(output.complaint, 200)}", asked=("containerd",))
        elif heading.split() != ["TASK", "PID", "STATUS"] or None in rows:
            silent = Unmeasured("ctr tasks list is not in its documented format")
        else:
            silent = tuple(clean(row[1]) for row in filter(None, rows) if row[2] == "UNKNOWN")
    return TaskNamespace(f"tasks of {clean(name, 60)}", silent)


def _condition(found: dict[str, Any], kind: str) -> Any:
    value = found.get(kind, {}).get("status")
    return value if isinstance(value, bool) else Unmeasured(f"crictl info does not say {kind}")
