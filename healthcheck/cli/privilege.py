"""`muster privilege`: prints the setup that lets checks read root-only data without root,
and muster cordon in Kubernetes."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

_COMMANDS = {
    "helper": ("healthcheck.cli.privilege:helper", "Print the root-owned helper."),
    "sudoers": ("healthcheck.cli.privilege:sudoers", "Print the sudoers line, and how to install both."),
    "kubernetes": ("provisioning.cli.kuberights:kubernetes",
                   "Print RBAC for Kubernetes, and tolerations for DaemonSets."),
}


@click.group(cls=LazyGroup, places=_COMMANDS)
def privilege() -> None:
    """Let checks read root-only data (kernel log, Docker) without giving them root,
    and let muster cordon in Kubernetes.

    \b
    unprivileged   the default; root-only data is shown as not seen, or skipped by `profile: unprivileged`
    helper         a root-owned program on the node that accepts probe ids only, run through sudo
    become         the whole collector runs through sudo; that login is equal to root

    \b
    muster privilege helper > muster-probe
    muster privilege sudoers --user muster
    then, in the inventory:  defaults: {privilege: helper}
    muster privilege kubernetes --user muster | kubectl apply -f -
    """


@click.command()
@click.option("--python", metavar="PATH", default="/usr/bin/python3", show_default=True,
              help="Python 3.8 or newer on the nodes.")
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
@click.option("--user", metavar="NAME", required=True, help="The login user of checks.")
@click.option("--path", metavar="PATH", help="Where the helper is on the nodes. Default: MUSTER_HELPER, "
                                             "/opt/muster/libexec/muster-probe.")
def sudoers(user: str, path: str | None) -> None:
    """Print the lines for /etc/sudoers.d/muster, and the commands that install them and the helper.

    With another --path, set MUSTER_HELPER to it where `muster check` runs.

    \b
    muster privilege sudoers --user muster > muster.sudoers && visudo -cf muster.sudoers
    """
    from healthcheck.collector import helper as made

    path = path or made.path()
    click.echo(made.sudoers(user, path) + made.by_hand(user, path), nl=False)
