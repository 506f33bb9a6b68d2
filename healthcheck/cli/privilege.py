"""`muster privilege`: prints what an administrator installs so that looks see what needs root without being root, and muster may cordon."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

_COMMANDS = {
    "helper": ("healthcheck.cli.privilege:helper", "Print the root-owned helper."),
    "sudoers": ("healthcheck.cli.privilege:sudoers", "Print the line for sudoers, and how to install both."),
    "kubernetes": ("provisioning.cli.kuberights:kubernetes", "Print RBAC for Kubernetes, and what DaemonSets must tolerate."),
}


@click.group(cls=LazyGroup, places=_COMMANDS)
def privilege() -> None:
    """Let looks see what needs root (the kernel log, Docker) without giving them root; and let muster cordon in Kubernetes.

    \b
    unprivileged   the default; what needs root is shown as not seen, or left out by `profile: unprivileged`
    helper         a root-owned program on the node that takes ids of probes and nothing else, run through sudo
    become         the whole collector through sudo; whoever may log in so is root

    \b
    muster privilege helper > muster-probe
    muster privilege sudoers --user muster
    then, in the inventory:  defaults: {privilege: helper}
    muster privilege kubernetes --user muster | kubectl apply -f -
    """


@click.command()
@click.option("--python", metavar="PATH", default="/usr/bin/python3", show_default=True, help="Python 3.8 or newer on the nodes.")
def helper(python: str) -> None:
    """Print the helper, one file of Python. Read it, then install it on every node, owned by root.

    \b
    muster privilege helper > muster-probe
    install -o root -g root -m 0755 muster-probe /opt/muster/libexec/muster-probe
    """
    from healthcheck.collector import helper as made
    from healthcheck.sweep.rootprobes import root_probes

    click.echo(made.program(root_probes(), python), nl=False)


@click.command()
@click.option("--user", metavar="NAME", required=True, help="The user as whom looks log in.")
@click.option("--path", metavar="PATH", help="Where the helper is on the nodes. Default: MUSTER_HELPER, /opt/muster/libexec/muster-probe.")
def sudoers(user: str, path: str | None) -> None:
    """Print the lines for /etc/sudoers.d/muster, and the commands that install them and the helper.

    With another --path, set MUSTER_HELPER to it where `muster check` runs.

    \b
    muster privilege sudoers --user muster > muster.sudoers && visudo -cf muster.sudoers
    """
    from healthcheck.collector import helper as made

    path = path or made.path()
    click.echo(made.sudoers(user, path) + made.by_hand(user, path), nl=False)
