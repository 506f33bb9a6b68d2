"""`muster os serve`: the HTTP server of own PXE."""

from __future__ import annotations

import click

from inventory.errors import UsageError


@click.command()
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:9850", show_default=True,
              help="Where to serve: the head's address in the provisioning network.")
@click.option("--tls-cert", metavar="FILE", help="Serve TLS with this certificate (PEM, with its chain).")
@click.option("--tls-key", metavar="FILE", help="Its key.")
@click.option("--rules", metavar="DIR", help="A folder of site rules, with pxe.yaml and its templates.")
@click.option("--state", metavar="DIR",
              help="Folder of the installations. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def serve(
    listen: str, tls_cert: str | None, tls_key: str | None, rules: str | None, state: str | None,
) -> int:
    """Serve boot scripts and seeds to armed machines until ended, and take the signed phone-home of each
    installed system.

    A machine that is not armed is sent to its disk. After a change of pxe.yaml, start it again. What this
    trusts, and what not, is in muster help pxe.

    \b
    muster os serve --listen 10.1.0.1:9850 --rules site

    Exit: 0 on SIGTERM or Ctrl-C, 2 usage.
    """
    from healthcheck.config.rulesfolder import folders
    from healthcheck.exporter.serving import where
    from inventory.locate import state_dir
    from provisioning.osinstall.pxe import settings
    from provisioning.osinstall.pxe.records import InstallationRecords
    from provisioning.osinstall.pxe.server import Log, PxeServer, tls_context
    from provisioning.osinstall.pxe.site import PxeSite

    at = where(listen)
    tls = tls_context(tls_cert, tls_key)
    options = settings.load(folders(rules))
    site = PxeSite(options, InstallationRecords(state_dir(state)))
    try:
        server = PxeServer(at, site, Log(click.echo), tls)
    except OSError as problem:
        raise UsageError(f"--listen {listen}: {problem.strerror or problem}") from None
    click.echo(f"serving on {listen}, for {options.server}")
    try:
        with server:
            server.serve_forever()
    except KeyboardInterrupt:
        return 0
    return 0
