"""`muster privilege kubernetes`: the rights that an administrator grants so that muster cordons."""

from __future__ import annotations

import re

import click

from inventory.errors import UsageError
from inventory.text import short

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/; names of users and groups are of
# whoever vouches for them.
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@click.command()
@click.option("--user", metavar="NAME", help="The user of muster's kubeconfig.")
@click.option("--group", metavar="NAME", help="A group that this user is in.")
@click.option("--service-account", metavar="NAMESPACE/NAME",
              help="A service account, which is also created.  [default: muster/muster]")
@click.option("--condition", is_flag=True,
              help="Add the right to write node conditions, for `condition: true` in the inventory.")
@click.option(
    "--tolerations", is_flag=True, help="Print only the tolerations that DaemonSets on new nodes need.")
def kubernetes(
    user: str | None, group: str | None, service_account: str | None, condition: bool, tolerations: bool,
) -> None:
    """Print the least rights that muster needs in Kubernetes as YAML. Comments explain what DaemonSets must
    tolerate so that new nodes can pass, and which parts of a cordon kubectl can undo.

    \b
    muster privilege kubernetes --user muster --condition | kubectl apply -f -
    muster privilege kubernetes | less
    muster privilege kubernetes --tolerations
    """
    from provisioning.actions.kuberights import TOLERATIONS, RbacSubject, manifest

    named = [(kind, name) for kind, name in (
        ("User", user), ("Group", group), ("ServiceAccount", service_account)) if name is not None]
    if len(named) > 1:
        raise UsageError(
            "--user, --group and --service-account exclude each other: bind further subjects by hand")
    if tolerations:
        click.echo(TOLERATIONS, nl=False)
        return
    kind, name = named[0] if named else ("ServiceAccount", "muster/muster")
    if kind != "ServiceAccount":
        if not name or not name.isprintable() or len(name) > 253:
            raise UsageError(f"--{kind.lower()} is {short(name)}, expected a name as the API server knows it")
        subject = RbacSubject(kind, name)
    else:
        namespace, _, account = name.partition("/")
        if not _LABEL.fullmatch(namespace) or not _ACCOUNT.fullmatch(account):
            raise UsageError(
                f"--service-account is {short(name)}, expected NAMESPACE/NAME, such as muster/muster")
        subject = RbacSubject(kind, account, namespace)
    click.echo(manifest(subject, condition=condition), nl=False)
