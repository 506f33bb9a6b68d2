"""`muster inventory`: commands for the inventory file."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "import": ("inventory.cli.import_:import_", "Take nodes and groups from Slurm, Ansible or CSV."),
    "discover": ("provisioning.cli.discover:discover",
                 "Find management controllers; what is missing, extra, swapped, doubled."),
    "labels": ("provisioning.cli.labels:labels",
               "Propose racks, leaves and leaves of ports, from LLDP or MAAS."),
    "check": ("inventory.cli.show:check", "Check the file and summarise it."),
    "show": ("inventory.cli.show:show", "Show one node's values and where each comes from."),
    "nodes": ("inventory.cli.show:nodes", "Print the nodes that a node set names."),
    "rename": ("provisioning.cli.rename:rename",
               "Give a node another name in all that muster keeps, cordons included."),
    "enroll": ("inventory.cli.enroll:enroll", "Fetch host keys from nodes and pin them in known_hosts."),
    "lifecycle": ("inventory.cli.lifecycle:lifecycle",
                  "Take nodes out of service and back; list who is out."),
}


@click.group(cls=LazyGroup, places=COMMANDS)
def inventory() -> None:
    """Read and edit the inventory: the YAML file that lists the nodes and how to reach them.

    \b
    version: 1
    cordon: slurm       # or kubernetes, {hostfile: FILE}, {golden: FILE}, {command: [PROGRAM, ...]}
    burnin: {max_kw: 400}
    defaults: {user: muster, sku: hgx-h100, burnin: {python: [/opt/torch/bin/python3]}}
    groups: {train: "gpu[001-512]"}
    nodes:
      gpu[001-512]: {rack: r01, leaf: [leaf01, leaf02]}
      gpu007: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor, until: 2026-12-01}}
      gpu008: {bmc: {address: 10.2.0.8, user: admin, password: {file: /etc/muster/bmc.password}}}

    An entry for one node refines those for sets, and both refine defaults.
    """
