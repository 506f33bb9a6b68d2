"""A plan names the command that carries it out, with every option that the plan was asked with."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from provisioning.cli.typed import again


@click.command()
@click.argument("nodes", required=False)
@click.option("--become", is_flag=True)
@click.option("--hostfile")
@click.option("--at-most", type=int)
@click.option("--format", "form", default="text")
@click.option("--inventory", "-i")
def plan(**_: object) -> None:
    """Prints what to type next."""
    click.echo(again("--apply"))


@pytest.mark.parametrize(("words", "says"), [
    ((), "muster plan --apply"),
    (("--hostfile", "bad hosts", "--at-most", "2"), "muster plan --hostfile 'bad hosts' --at-most 2 --apply"),
    (("-i", "x.yaml", "gpu[1-2]", "--become"), "muster plan 'gpu[1-2]' --become --inventory x.yaml --apply"),
])
def test_what_was_typed_is_repeated_and_defaults_are_not(words: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(plan, list(words))
    assert (done.exit_code, done.output) == (0, f"{says}\n")
