"""A real Prometheus and a real Alertmanager on loopback, with a webhook that keeps what it is told; all
stopped whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.testbed.ports import free_port
from tests.testbed.processes import stop
from tests.testbed.require import require
from tests.testbed.sshd import wait_until
from tests.testbed.webserver import Answers, answering

_PROGRAMS = ("prometheus", "prometheus-alertmanager", "promtool")


def require_prometheus() -> None:
    require(all(map(shutil.which, _PROGRAMS)),
            "no Prometheus on this machine: apt-get install -y prometheus prometheus-alertmanager")


@dataclass
class Monitoring:
    """A running pair. `told` is what the webhook got: (status, alertname, labels), oldest first."""

    url: str
    told: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("/api/v1/query?query="
                                                + urllib.parse.quote(expression))["data"]["result"]
        return found

    def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("/api/v1/targets")["data"]["activeTargets"]
        return found

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:  # noqa: S310  (our own)
            return json.load(answer)


@contextlib.contextmanager
def monitoring(folder: Path, scrape: list[dict[str, Any]], rules: list[Path]) -> Iterator[Monitoring]:
    """Prometheus with these scrape_configs and rule files, every second; each alert goes to the webhook at
    once, and when it is over."""
    port, alert_port = free_port(), free_port()
    bed = Monitoring(f"http://127.0.0.1:{port}")
    with answering(_webhook(bed)) as hook:
        (folder / "alertmanager.yml").write_text(json.dumps({
            "route": {"receiver": "hook", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s",
                      "repeat_interval": "1h"},
            "receivers": [{"name": "hook", "webhook_configs": [{"url": f"http://127.0.0.1:{hook}/",
                                                                "send_resolved": True}]}]}))
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules], "scrape_configs": scrape,
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alert_port}"]}]}]}}))
        started: list[subprocess.Popen[bytes]] = []
        try:
            for name, argv in (
                ("alertmanager", ["prometheus-alertmanager", f"--config.file={folder}/alertmanager.yml",
                                  f"--storage.path={folder}/am",
                                  f"--web.listen-address=127.0.0.1:{alert_port}",
                                  "--cluster.listen-address="]),
                ("prometheus", ["prometheus", f"--config.file={folder}/prometheus.yml",
                                f"--storage.tsdb.path={folder}/tsdb",
                                f"--web.listen-address=127.0.0.1:{port}"]),
            ):
                with (folder / f"{name}.log").open("wb") as log:
                    environment = {"PATH": os.environ.get("PATH", ""), "GOMAXPROCS": "1"}
                    started.append(subprocess.Popen(argv, cwd=folder, env=environment,
                                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            for at, process in ((f"http://127.0.0.1:{alert_port}", started[0]), (bed.url, started[1])):
                wait_until(lambda at=at, process=process: _ready(at, process, folder), 60,
                           f"{at}/-/ready")  # type: ignore[misc]
            yield bed
        finally:
            stop(*started)


def _ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, "".join(path.read_text()[-800:] for path in folder.glob("*.log"))
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:  # noqa: S310  (our own)
            return bool(answer.status == 200)
    except OSError:
        return False


def _webhook(bed: Monitoring) -> type[Answers]:
    class Handler(Answers):
        """Takes what Alertmanager posts."""

        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bed.told.extend((alert["status"], alert["labels"]["alertname"], alert["labels"])
                            for alert in said["alerts"])
            self.send_response(200)
            self.end_headers()

    return Handler
