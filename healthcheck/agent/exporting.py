"""`muster.pyz exporter`: serves this node's newest agent result to Prometheus,
with Python's standard library only."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from healthcheck.agent.keep import MOST
from healthcheck.agent.served import PERIODS, AgentSource
from healthcheck.config.codec import from_plain
from healthcheck.exporter.board import Board, TextFormat
from healthcheck.exporter.page import MOST_SERIES, Page
from healthcheck.exporter.processed import processed
from healthcheck.exporter.serving import LISTEN, served, where, with_tls
from healthcheck.model.places import PERIOD_S, STATE
from inventory.errors import MusterError, UsageError
from inventory.model import Node
from inventory.release import VERSION
from inventory.text import clean

OK, USAGE = 0, 2


def main(words: list[str]) -> int:
    """The command; returns the exit code."""
    options = _options(words)
    signal.signal(signal.SIGTERM, _interrupt)
    here = Path(sys.argv[0]).absolute()
    began_with = os.path.realpath(here)

    def replaced() -> bool:
        # The unit restarts it with the current version.
        return os.path.realpath(here) != began_with

    try:
        host, port = where(options.listen)
        security = with_tls(options.tls_cert, options.tls_key, options.tls_clients)
        refused = [0]
        board = board_of(Path(options.state), Path(options.bundle) if options.bundle
                         else Path(began_with).parent, refused, needed=True)
        if options.once:
            board.refresh()
            sys.stdout.write(board.text())
            return OK
        return served(board, host, port, security, refused, over=replaced)
    except MusterError as error:
        print(f"muster: {error}", file=sys.stderr)  # noqa: T201
        return USAGE


def board_of(
    state: Path, installed: Path, refused: list[int], most: int = MOST_SERIES, *, needed: bool = False,
    formats: TextFormat | None = None,
) -> Board:
    """A board of this node. `installed` names the node; unless `needed`, the agent's result may."""
    said = _installed(installed, needed=needed)
    try:
        node = from_plain(Node, said["node"]) if said else None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{installed / 'node.json'}: cannot be read ({clean(str(error), 120)}); install the "
                         "agent again") from None
    ours = str(said.get("version") or VERSION)
    return Board(AgentSource(state, node), Page(PERIODS * PERIOD_S, most),
                 lambda: processed(refused[0], ours=ours), formats=formats)


def _installed(folder: Path, *, needed: bool) -> dict[str, Any]:
    path = folder / "node.json"
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MOST))
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
    except FileNotFoundError:
        if needed:
            raise UsageError(f"{path}: no such file; install the agent again") from None
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path}: cannot be read ({clean(str(error), 120)}); install the agent again") from None
    return found


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="muster.pyz exporter", description="Serve this node's newest result to Prometheus at /metrics; "
        "/healthz, /readyz. If there is no current one (none, cut, over two periods old, of another boot, a "
        "clock that was set since), the node is unknown.",
        epilog="Example: python3 /opt/muster/current/muster.pyz exporter --listen 127.0.0.1:9847. Exits when "
        "another version is in use.")
    parser.add_argument("--listen", metavar="HOST:PORT", default=LISTEN, help="where to serve [%(default)s]")
    parser.add_argument("--tls-cert", metavar="FILE",
                        help="serve TLS with this certificate (PEM), read again when it is renewed")
    parser.add_argument("--tls-key", metavar="FILE", help="its key")
    parser.add_argument("--tls-clients", metavar="FILE",
                        help="serve only clients whose certificate one of these authorities has signed")
    parser.add_argument("--once", action="store_true", help="print the page and exit")
    parser.add_argument("--state", metavar="DIR", default=STATE,
                        help="where the agent keeps its result [%(default)s]")
    parser.add_argument("--bundle", metavar="DIR", default="", help="where node.json is [beside muster.pyz]")
    return parser.parse_args(words)
