"""`muster agent manifest`: prints what runs the agent in Kubernetes."""

from __future__ import annotations

import click

from healthcheck.cli import completing
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.text import short


@click.command(short_help="Print the DaemonSet that runs the agent in Kubernetes.")
@click.option("--image", metavar="IMAGE", required=True, help="The image that scripts/image has built.")
@click.option("--namespace", metavar="NAME", default="muster", show_default=True)
@click.option("--period", metavar="SPAN", callback=span(10, 86400), default="5m", show_default=True,
              help="Time between two checks.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku, help="SKU of nodes that name none.")
@click.option("--selector", metavar="KEY=VALUE", multiple=True,
              help="Only nodes with this label; repeatable. [all nodes]")
@click.option("--port", type=click.IntRange(1024, 65535), default=9847, show_default=True,
              help="Where each pod serves its node's result to Prometheus.")
def manifest(
    image: str, namespace: str, period: float, sku: str | None, selector: tuple[str, ...], port: int,
) -> None:
    """Print namespace, service account and DaemonSet as YAML, for nodes without SSH or Python; this changes
    nothing.

    The pods read the inventory from the ConfigMap muster-inventory. A node's name in Kubernetes must be its
    name in the inventory.

    \b
    muster agent manifest --image registry/muster:0.1.0 | kubectl apply -f -
    muster agent manifest --image registry/muster:0.1.0 --selector nvidia.com/gpu.present=true | less
    """
    from provisioning.agent.manifest import DaemonSetRequest
    from provisioning.agent.manifest import manifest as made

    labels = {}
    for one in selector:
        key, equals, value = one.partition("=")
        if not equals:
            raise UsageError(f"--selector {short(one)}: expected KEY=VALUE, as a label is")
        labels[key] = value
    click.echo(made(DaemonSetRequest(image, namespace, period, sku, labels, port)), nl=False)
