"""The container runtimes that a node may have, each asked through its own client. Python 3.8.

docker-images(1), docker-info(1); ctr of containerd 1.6 (`images ls`, `images check`, `plugins ls --detailed`,
`images pull --hosts-dir`: ctr goes by the mirrors of that folder only where it is named); nerdctl (the same
folder by itself); crictl (`images -o json`, `imagefsinfo`), which has the CRI plugin pull, with its mirrors.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any, List, Optional, Tuple

from provisioning.images.onnode.children import Children, ToolError
from provisioning.images.onnode.reference import DIGEST, split

ASK_S = 30.0
_CONTAINERD = ("/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock")
_DOCKER = ("/run/docker.sock", "/var/run/docker.sock")
_CRI = (*_CONTAINERD, "/run/crio/crio.sock")
_CONFIGS = ("/etc/containerd/config.toml", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml")
_CERTS = "/etc/containerd/certs.d"
_CONFIG_PATH = re.compile(r"^\s*config_path\s*=\s*[\"']([^\"']+)[\"']", re.MULTILINE)
_ROOT = re.compile(r"^ID:\s+(\S+).*?(?=^Type:|\Z)", re.MULTILINE | re.DOTALL)
_LS = re.compile(r"^(\S+)\s+\S+\s+(sha256:[0-9a-f]{64})\s", re.MULTILINE)
_CHECK = re.compile(
    r"^(\S+)\s+\S+\s+sha256:[0-9a-f]{64}\s+(\S+(?: \([^)]*\))?).*\s(true|false)\s*$", re.MULTILINE)


class Stored:
    """An image as a runtime lists it: full repository, tag and digest ("" for none), and its name there."""

    def __init__(self, repository: str, tag: str, digest: str, name: str) -> None:
        self.repository = repository
        self.tag = tag
        self.digest = digest
        self.name = name


class DockerRuntime:
    """dockerd, asked by docker(1). Its credentials are those of root's ~/.docker/config.json."""

    def __init__(self, children: Children, socket: str) -> None:
        self.name = "docker"
        self.children = children
        self.argv = ("docker", "--host", "unix://" + socket)

    def listed(self) -> List[Stored]:
        text = self.children.output(
            (*self.argv, "images", "--digests", "--no-trunc", "--format", "{{json .}}"), ASK_S)
        found = []
        for line in text.splitlines():
            row = _object(line, "docker")
            repository, tag, digest = (_plain(row.get(key)) for key in ("Repository", "Tag", "Digest"))
            parts = split(repository) if repository else None
            if parts is not None:
                name = repository + ("@" + digest if digest else ":" + tag)
                found.append(Stored(parts[0], tag, digest if DIGEST.fullmatch(digest) else "", name))
        return found

    def incomplete(self, image: Stored) -> str:
        """What it lacks; "" for nothing. Docker lists no image before it has all of it."""
        try:
            self.children.output((*self.argv, "image", "inspect", "--format", "{{.Id}}", image.name), ASK_S)
        except ToolError as error:
            return str(error)
        return ""

    def root(self) -> str:
        """The folder in which images lie."""
        return self.children.output((*self.argv, "info", "--format", "{{.DockerRootDir}}"), ASK_S).strip()

    def pull(self, reference: str) -> Tuple[str, ...]:
        return (*self.argv, "pull", "--quiet", reference)


class ContainerdRuntime:
    """containerd, asked by ctr; pulled by nerdctl where it is there, else by ctr."""

    def __init__(self, children: Children, socket: str, namespace: str, hosts: str) -> None:
        self.name = "containerd"
        self.children = children
        self.socket = socket
        self.base = ("ctr", "--connect-timeout", "5s", "--address", socket)
        self.hosts = hosts or _hosts_folder()
        self.namespace = namespace or self._usual()

    def _usual(self) -> str:
        """The one that kubelets use, where it is there."""
        words = self.children.output((*self.base, "namespaces", "ls", "-q"), ASK_S).split()
        return "k8s.io" if "k8s.io" in words else "default"

    @property
    def argv(self) -> Tuple[str, ...]:
        return (*self.base, "--namespace", self.namespace)

    def listed(self) -> List[Stored]:
        found = []
        for name, digest in _LS.findall(self.children.output((*self.argv, "images", "ls"), ASK_S)):
            parts = split(name)
            if parts is not None:
                found.append(Stored(parts[0], parts[1], digest, name))
        return found

    def incomplete(self, image: Stored) -> str:
        """What it lacks; "" for nothing."""
        text = self.children.output((*self.argv, "images", "check", "name==" + image.name), ASK_S)
        for name, state, unpacked in _CHECK.findall(text):
            if name == image.name:
                if not state.startswith("complete"):
                    return "its content is %s" % state[:60]
                return "" if unpacked == "true" else "it is not unpacked"
        return "ctr images check does not show it"

    def root(self) -> str:
        """The folder in which images lie, as the daemon itself says."""
        text = self.children.output((*self.base, "plugins", "ls", "--detailed"), ASK_S)
        for match in _ROOT.finditer(text):
            place = re.search(r"^\s+root\s+(/\S.*?)\s*$", match[0], re.MULTILINE)
            if match[1] in ("overlayfs", "content") and place is not None:
                return place[1]
        raise ToolError("ctr plugins ls --detailed names no root folder")

    def pull(self, reference: str) -> Tuple[str, ...]:
        hosts = ("--hosts-dir", self.hosts) if os.path.isdir(self.hosts) else ()
        if shutil.which("nerdctl"):
            return ("nerdctl", "--address", self.socket, "--namespace", self.namespace, *hosts, "pull",
                    "--quiet", reference)
        return (*self.argv, "images", "pull", *hosts, reference)


class CriRuntime:
    """What serves the kubelet (containerd's CRI plugin, CRI-O), asked by crictl."""

    def __init__(self, children: Children, socket: str) -> None:
        self.name = "cri"
        self.children = children
        address = "unix://" + socket
        self.argv = ("crictl", "--runtime-endpoint", address, "--image-endpoint", address)

    def listed(self) -> List[Stored]:
        text = self.children.output((*self.argv, "images", "-o", "json"), ASK_S)
        found = []
        for image in _list(_object(text, "crictl").get("images")):
            digests = {}
            for name in _list(image.get("repoDigests")):
                parts = split(str(name))
                if parts is not None and parts[2]:
                    digests[parts[0]] = parts[2]
                    found.append(Stored(parts[0], "", parts[2], str(name)))
            for name in _list(image.get("repoTags")):
                parts = split(str(name))
                if parts is not None:
                    found.append(Stored(parts[0], parts[1], digests.get(parts[0], ""), str(name)))
        return found

    def incomplete(self, image: Stored) -> str:
        """What it lacks; "" for nothing. The CRI lists no image before it has unpacked it."""
        try:
            self.children.output((*self.argv, "inspecti", "-q", image.name), ASK_S)
        except ToolError as error:
            return str(error)
        return ""

    def root(self) -> str:
        """The folder in which images lie."""
        text = self.children.output((*self.argv, "imagefsinfo"), ASK_S)
        place = re.search(r"\"mountpoint\":\s*\"(/[^\"]*)\"", text)
        if place is None:
            raise ToolError("crictl imagefsinfo names no mount point")
        return place[1]

    def pull(self, reference: str) -> Tuple[str, ...]:
        return (*self.argv, "pull", reference)


def runtime(children: Children, asked: Any) -> Any:
    """The wanted runtime or, with "auto", the one that this node uses: what serves a kubelet, else Docker
    where its socket is. `asked` has `runtime`, `address`, `namespace` and `hosts`. Raises ToolError."""
    kind, address = asked["runtime"], asked["address"]
    kubelet = os.path.isdir("/var/lib/kubelet") and not os.path.exists("/run/cri-dockerd.sock")
    order = ("cri", "containerd", "docker") if kubelet else ("docker", "containerd", "cri")
    client = {"cri": "crictl", "containerd": "ctr", "docker": "docker"}
    places = {"cri": _CRI, "containerd": _CONTAINERD, "docker": _DOCKER}
    lacking = []
    for name in order if kind == "auto" else (kind,):
        sockets = (address,) if address else places[name]
        socket = next((path for path in sockets if os.path.exists(path)), "")
        if not shutil.which(client[name]):
            lacking.append("no %s" % client[name])
        elif not socket:
            lacking.append("no socket of %s (%s)" % (name, ", ".join(sockets)))
        elif name == "docker":
            return DockerRuntime(children, socket)
        elif name == "containerd":
            return ContainerdRuntime(children, socket, asked["namespace"], asked["hosts"])
        else:
            return CriRuntime(children, socket)
    raise ToolError("no container runtime is found here: %s" % ", ".join(lacking))


def _hosts_folder() -> str:
    """The folder of mirrors that containerd is configured with, else the usual one."""
    for path in _CONFIGS:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                match = _CONFIG_PATH.search(file.read(1 << 20))
        except OSError:
            continue
        if match is not None:
            return next((one for one in match[1].split(":") if os.path.isdir(one)), match[1])
    return _CERTS


def _object(text: str, name: str) -> Any:
    try:
        found: Optional[Any] = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ToolError("%s printed something else than JSON objects" % name)
    return found


def _list(given: Any) -> List[Any]:
    return [one for one in given if isinstance(one, (str, dict))] if isinstance(given, list) else []


def _plain(given: Any) -> str:
    return given if isinstance(given, str) and given != "<none>" else ""
