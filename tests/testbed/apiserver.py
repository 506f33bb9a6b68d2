"""A real kube-apiserver with a real etcd on loopback, for the slow tier; both are stopped whatever happens.

The registries have no binary: Debian's source package `kubernetes` builds one (cmd/kube-apiserver),
MUSTER_KUBE_APISERVER says where it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.kubernetes import TOKEN, Serving, certified, kubeconfig
from tests.testbed.ports import free_port
from tests.testbed.processes import stop
from tests.testbed.sshd import wait_until

WHY_NOT = ("no real kube-apiserver: build one, name it in MUSTER_KUBE_APISERVER, and apt-get install -y "
           "etcd-server")


def found() -> bool:
    """Whether there is one here."""
    return Path(os.environ.get("MUSTER_KUBE_APISERVER", "")).is_file() and shutil.which("etcd") is not None


@contextlib.contextmanager
def apiserver(folder: Path) -> Iterator[Serving]:
    """An empty cluster: no controller, no scheduler, no kubelet."""
    certificate, key = certified(folder)
    client, peer, port = free_port(), free_port(), free_port()
    (folder
     / "tokens").write_text(f'{TOKEN},admin,1,"system:masters"\nstranger,stranger,2\nwarden,warden,3\n')
    etcd = ["etcd", "--data-dir", str(folder / "etcd"), "--listen-client-urls", f"http://127.0.0.1:{client}",
            "--advertise-client-urls", f"http://127.0.0.1:{client}", "--listen-peer-urls",
            f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}", "--initial-cluster",
            f"default=http://127.0.0.1:{peer}"]
    server = [os.environ["MUSTER_KUBE_APISERVER"], f"--etcd-servers=http://127.0.0.1:{client}",
              "--bind-address=127.0.0.1",
              "--advertise-address=127.0.0.1", f"--secure-port={port}", f"--tls-cert-file={certificate}",
              f"--tls-private-key-file={key}",
              f"--token-auth-file={folder / 'tokens'}", "--authorization-mode=RBAC",
              "--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=ServiceAccount",
              "--service-account-issuer=https://muster.test", f"--service-account-key-file={key}",
              f"--service-account-signing-key-file={key}",
              "--service-cluster-ip-range=10.0.0.0/24", f"--cert-dir={folder}"]
    started: list[subprocess.Popen[bytes]] = []
    url = f"https://127.0.0.1:{port}"
    bed = Serving(url, kubeconfig(folder / "kubeconfig", url, certificate), None, certificate)
    try:
        for argv in (etcd, server):
            with (folder / f"{Path(argv[0]).name}.log").open("wb") as log:
                started.append(subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=log))
        wait_until(lambda: _ready(bed, started, folder), 180, "a ready kube-apiserver")
        yield bed
    finally:
        stop(*reversed(started))


def emptied(bed: Serving) -> None:
    """Afterwards there is no node, no pod and no event."""
    for path in ("/api/v1/pods", "/api/v1/nodes", "/api/v1/events"):
        for one in bed.ask("GET", path)[1]["items"]:
            about = one["metadata"]
            where = path.replace("/v1/",
                                 f"/v1/namespaces/{about['namespace']}/") if "namespace" in about else path
            bed.ask("DELETE", f"{where}/{about['name']}", {"gracePeriodSeconds": 0})


def _ready(bed: Serving, started: list[subprocess.Popen[bytes]], folder: Path) -> bool:
    assert all(process.poll() is None for process in started), "".join(path.read_text()[-1500:]
                                                                       for path in folder.glob("*.log"))
    with contextlib.suppress(OSError, urllib.error.URLError, ValueError):
        return bed.ask("GET", "/api/v1/namespaces/default")[0] == 200
    return False


def applied(bed: Serving, text: str) -> None:
    """Has the server take every document of a YAML text, as `kubectl apply` does where there is none of them
    yet."""
    import yaml

    for document in yaml.safe_load_all(text):
        group, kind, about = document["apiVersion"], document["kind"], document["metadata"]
        at = "/api/v1" if group == "v1" else f"/apis/{group}"
        inside = f"/namespaces/{about['namespace']}" if "namespace" in about else ""
        status, found = bed.ask("POST", f"{at}{inside}/{kind.lower()}s", document)
        assert status in (201, 409), found
        if status == 409:
            status, found = bed.ask("PUT", f"{at}{inside}/{kind.lower()}s/{about['name']}", document)
            assert status == 200, found
