"""Text files of many nodes' agents, served as each node's node_exporter serves its own, and a Prometheus that
scrapes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.testbed.webserver import Answers, answering


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serves FOLDER/NAME/muster.prom at /NAME; gives host and port."""

    class Handler(Answers):
        """Answers with the file as it is now."""

        def do_GET(self) -> None:
            try:
                body = (folder / self.path.strip("/") / "muster.prom").read_bytes()
            except OSError:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

    with answering(Handler) as port:
        yield f"127.0.0.1:{port}"


def scrape_config(address: str, names: Iterable[str], job: str = "node", **labels: str) -> dict[str, Any]:
    """Prometheus' scrape_config for these nodes of `serving`, each an instance of its own name, with more
    target labels.

    A scrape may take 5 s: one that fails on a busy machine takes the node's series away.
    """
    return {"job_name": job, "scrape_interval": "5s", "scrape_timeout": "5s", "static_configs": [
        {"targets": [address],
         "labels": {"__metrics_path__": f"/{name}", "instance": f"{name}:9100", **labels}}
        for name in names]}
