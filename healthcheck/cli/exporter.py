"""`muster exporter`: serves the state of the fleet to Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli.options import STATE
from healthcheck.exporter.alerts import folder, together
from healthcheck.exporter.sweeper import Sweeper
from healthcheck.gate.publish import OURS
from healthcheck.gate.snapshot import NAME
from healthcheck.model.places import INSTALLED
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.locate import find_inventory, needed_inventory, state_dir

if TYPE_CHECKING:
    from healthcheck.exporter.board import Board

# Sweeps of a timer may be an hour apart, and take their time.
_STALE_S = 5400.0


@click.command()
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:9847", show_default=True,
              help="Where to serve; [::1]:9847 for IPv6.")
@click.option("--every", metavar="SPAN", callback=span(10, 86400),
              help="Also sweep all nodes of the inventory at this interval (1m, 5m).")
@click.option("--stale", metavar="SPAN", callback=span(10, 30 * 86400),
              help="Age from which a result counts as unknown. [three times --every, else 90m]")
@click.option("--http-sd", metavar="PORT", type=click.IntRange(1, 65535),
              help="Serve the inventory at /sd, as targets on this port.")
@click.option("--tls-cert", metavar="FILE",
              help="Serve TLS with this certificate (PEM, with its chain); reloaded on renewal.")
@click.option("--tls-key", metavar="FILE", help="Its key.")
@click.option("--tls-clients", metavar="FILE",
              help="Serve only clients with a certificate from one of these authorities.")
@click.option("--web-config", metavar="FILE",
              help="TLS and users with passwords, as for Prometheus' exporters (their --web.config.file); "
                   "reloaded on changes.")
@click.option("--most-series", metavar="N", type=click.IntRange(1000), default=250_000, show_default=True,
              help="Limit of a page.")
@click.option("--agent", is_flag=True,
              help="On a node: serve its own agent's result from /var/lib/muster/agent or --state.")
@click.option("--once", is_flag=True,
              help="Print the page and exit, for node_exporter's textfile collector or promtool.")
@click.option("--rules-dir", is_flag=True,
              help="Print the folder of the recording and alert rules, and exit.")
@click.option("--print-rules", is_flag=True, help="Print these rules as one file, and exit.")
@click.option("--print-dashboard", is_flag=True, help="Print a dashboard for Grafana (JSON), and exit.")
@click.option("--rules", metavar="DIR", help="With --every: a folder of site rules.")
@click.option("--inventory", "-i", metavar="FILE",
              help="Default: as for muster check. Without one: the nodes in the store.")
@STATE
def exporter(
    listen: str, every: float | None, stale: float | None, http_sd: int | None, tls_cert: str | None,
    tls_key: str | None, tls_clients: str | None, web_config: str | None, most_series: int, agent: bool,
    once: bool, rules_dir: bool, print_rules: bool, print_dashboard: bool, rules: str | None,
    inventory: str | None, state: str | None,
) -> int:
    """Serve the newest results of all nodes to Prometheus,
    from the store of `muster check --store` or by its own sweeps.

    At /metrics: states, rules that did not pass, ages of results, Xids and errors, temperatures, cordons, the
    breaker, and muster's own health; /healthz, /readyz; at /sd with --http-sd the inventory as service
    discovery; at /gate the published snapshot; at / the status page of `muster report --html`, for people. A
    node without a fresh result is unknown.

    \b
    muster exporter                                       serves others' sweeps, on loopback
    muster exporter --every 5m --listen 0.0.0.0:9847 --tls-cert muster.pem --tls-key muster.key
    muster exporter --every 5m --listen 0.0.0.0:9847 --web-config /etc/muster/web.yml
    muster exporter --once | promtool check metrics
    muster exporter --print-rules > /etc/prometheus/rules/muster.yml
    muster exporter --print-dashboard > muster.json       for Grafana: Dashboards, New, Import

    On a node, --agent serves only its own agent's last result. A result that is over two periods old, of
    another boot, or by a clock that was set since is unknown, and /readyz gives the reason. `muster agent
    install NODES --exporter` sets this up without muster on nodes.

    \b
    scrape_configs:
      - {job_name: muster, scrape_interval: 1m, static_configs: [{targets: ['head:9847']}]}

    Exit: 0 on SIGTERM or Ctrl-C.
    """
    if rules_dir or print_rules:
        click.echo(folder() if rules_dir else together(), nl=rules_dir)
        return 0
    if print_dashboard:
        from healthcheck.exporter import dashboard

        click.echo(dashboard.file().read_text(encoding="utf-8"), nl=False)
        return 0
    if rules is not None and every is None:
        raise UsageError("--rules is for the sweeps of --every")
    from healthcheck.exporter.serving import served, where, with_tls

    host, port = where(listen)
    security = with_tls(tls_cert, tls_key, tls_clients)
    if web_config is not None:
        if security.encrypted:
            raise UsageError("--web-config has TLS of its own: tls_server_config; give it or --tls-cert")
        from healthcheck.exporter.webfile import WebFile

        security = WebFile(Path(web_config))
    refused = [0]
    if agent:
        if any(given is not None for given in (every, stale, http_sd, inventory)):
            raise UsageError("--agent serves this node's own result; --every --stale --http-sd --inventory "
                             "do not go with it")
        from healthcheck.agent.exporting import board_of
        from healthcheck.exporter.formats import PrometheusFormats
        from healthcheck.model.places import STATE

        sweeper, board = None, board_of(Path(state or STATE), Path(INSTALLED), refused, most_series,
                                         formats=PrometheusFormats())
    else:
        sweeper = _sweeper(every, rules, inventory, state)
        span_s = stale if stale is not None else 3 * every if every is not None else _STALE_S
        board = _board(inventory, state, span_s, most_series, http_sd, sweeper, refused, rules)
    if once:
        board.refresh()
        click.echo(board.text(), nl=False)
        return 0
    if sweeper is None:
        return served(board, host, port, security, refused)
    return served(board, host, port, security, refused, start=sweeper.start, stop=sweeper.stop)


def _board(
    inventory: str | None, state: str | None, stale: float, most: int, http_sd: int | None,
    sweeper: Sweeper | None, refused: list[int], rules: str | None,
) -> Board:
    from healthcheck.burnin.metrics import here
    from healthcheck.exporter.board import Board
    from healthcheck.exporter.formats import PrometheusFormats
    from healthcheck.exporter.gatepage import GatePage
    from healthcheck.exporter.page import Page
    from healthcheck.exporter.processed import processed
    from healthcheck.exporter.stored import Nodes, StoreSource
    from healthcheck.statuspage.served import StatusPage

    path = find_inventory(inventory)
    nodes = Nodes(path)
    if http_sd is not None and nodes.nodes is None:
        raise UsageError("--http-sd needs an inventory, but none was found: --inventory FILE")

    def sweeping() -> tuple[bool, int] | None:
        return (sweeper.runs, sweeper.starts) if sweeper is not None else None

    return Board(StoreSource(state_dir(state), nodes, here(state_dir(state))), Page(stale, most),
                 lambda: processed(refused[0], sweeping()),
                 inventory=(lambda: (nodes.nodes or {}).values()) if nodes.nodes is not None else None,
                 port=http_sd, gate=GatePage(state_dir(state) / OURS, NAME).answer,
                 formats=PrometheusFormats(), home=StatusPage(state_dir(state), path, rules).answer)


def _sweeper(
    every: float | None, rules: str | None, inventory: str | None, state: str | None,
) -> Sweeper | None:
    if every is None:
        return None
    path = needed_inventory(inventory, "--every needs an inventory, but none was found: --inventory FILE")
    words = ["--store", "--every", f"{every:g}", "--format", "json", "--inventory", str(path), "--state",
             str(state_dir(state))]
    return Sweeper([*words, *(("--rules", rules) if rules is not None else ())])
