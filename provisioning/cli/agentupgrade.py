"""What `muster agent upgrade` prints: its rings, each node as it is upgraded, and each ring's outcome."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from inventory.cli.folded import echo_folded
from inventory.nodeset import fold

if TYPE_CHECKING:
    from inventory.model import Node
    from provisioning.agent.install import AgentRequest, AgentResult
    from provisioning.agent.rings import RingSize
    from provisioning.agent.upgrade import RingOutcome

    Act = Callable[[Sequence[Node], AgentRequest], Iterable[AgentResult]]

WORSE = 4       # the exit code of an upgrade that a worse ring stopped, as of an open breaker


class RingReport:
    """Prints the upgrade of these nodes in rings. `act` does a request on some of them."""

    def __init__(self, nodes: Sequence[Node], act: Act, *, as_json: bool) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._act = act
        self._as_json = as_json
        self.upgraded: set[str] = set()

    def run(self, desired: AgentRequest, sizes: Sequence[RingSize], wait_s: float | None) -> int:
        """Upgrades them, or shows the rings of a dry run; returns the exit code. `wait_s` None: two minutes,
        or two periods where cron starts agents."""
        from provisioning.agent.install import AgentAction, AgentRequest
        from provisioning.agent.rings import rings
        from provisioning.agent.upgrade import upgrade_rings

        planned = {one.node: one for one in self._act(list(self._nodes.values()), replace(desired, dry=True))}
        failed = [planned[name] for name in self._nodes if name in planned and not planned[name].ok]
        same = [name for name in self._nodes if name in planned and planned[name].report.get("same") is True]
        todo = [name for name, one in ((name, planned.get(name)) for name in self._nodes)
                if one is not None and one.ok and name not in same]
        made = rings(todo, sizes)
        outcomes: list[RingOutcome] = []
        if desired.dry:
            self._line(f"{fold(same)}: nothing to do, the version is in use" if same else "")
            for number, ring in enumerate(made, 1):
                self._line(f"ring {number} of {len(made)}: would upgrade {fold(ring)}")
        else:
            # A command that was killed after the switch may have left the timer as it was.
            again = list(self._act(self._some(same), desired)) if same else []
            failed += [one for one in again if not one.ok]
            planned |= {one.node: one for one in again}
            if not self._as_json:
                echo_folded((one.node, one.message) for one in again if one.ok)
            ask = AgentRequest(AgentAction.STATUS, root=desired.root, hurry=True)

            def began(number: int, ring: Sequence[str]) -> None:
                click.echo(f"muster: ring {number} of {len(made)} begins: {fold(ring)}", err=True)

            for outcome in upgrade_rings(
                made, lambda names: self._act(self._some(names), ask),
                lambda names: self._each(self._act(self._some(names), desired)),
                _wait(wait_s, planned.values()), began=began):
                outcomes.append(outcome)
                failed += [one for one in outcome.done if not one.ok]
                self._outcome(outcome, len(made))
        if not self._as_json:
            echo_folded((one.node, f"NOT done: {one.message}") for one in failed)
        stopped = bool(outcomes) and not outcomes[-1].good
        left = [name for ring in made[len(outcomes):] for name in ring] if stopped else []
        if stopped:
            self._next(outcomes[-1], left)
        if self._as_json:
            click.echo(json.dumps(_document(desired, planned, made, outcomes, failed), indent=2))
        return WORSE if stopped and outcomes[-1].upgraded else int(bool(failed))

    def _some(self, names: Sequence[str]) -> list[Node]:
        return [self._nodes[name] for name in names]

    def _each(self, results: Iterable[AgentResult]) -> Iterator[AgentResult]:
        for one in results:
            if one.ok:
                self.upgraded.add(one.node)
                self._line(f"{one.node}: {one.message}")
            yield one

    def _line(self, text: str) -> None:
        if text and not self._as_json:
            click.echo(text)

    def _outcome(self, outcome: RingOutcome, total: int) -> None:
        if self._as_json:
            return
        counts = ", ".join(f"{count} {state}" for state, count in sorted(outcome.states.items()))
        said = (f"{len(outcome.worse)} of {len(outcome.nodes)} nodes got worse" if outcome.worse
                else "no node got worse" if outcome.states else "not compared")
        if not outcome.upgraded:
            said = "no node was upgraded"
        elif not outcome.good and not outcome.worse:
            said = "no agent gave a result, as before, so that nothing is known"
        self._line(f"ring {outcome.number} of {total}: {said}{f' ({counts})' if counts else ''}")
        echo_folded((node, f"worse: {why}") for node, why in outcome.worse.items())

    def _next(self, outcome: RingOutcome, left: Sequence[str]) -> None:
        """The commands that come next, after a stop."""
        bad = fold(outcome.worse) if outcome.worse else ""
        if left:
            click.echo(f"muster: stopped; {fold(left)} {'keeps' if len(left) == 1 else 'keep'} the version "
                       "before", err=True)
        if bad:
            click.echo(f"muster: next: muster check {shlex.quote(bad)}; to go back: muster agent rollback "
                       f"{shlex.quote(bad)}", err=True)
        if left:
            click.echo(f"muster: to go on all the same: muster agent upgrade {shlex.quote(fold(left))}, with "
                       "the same options", err=True)


def _wait(given: float | None, planned: Iterable[AgentResult]) -> float:
    from provisioning.agent.upgrade import wait_s

    return wait_s(planned) if given is None else given


def _document(
    desired: AgentRequest, planned: dict[str, AgentResult], made: Sequence[Sequence[str]],
    outcomes: Sequence[RingOutcome], failed: Sequence[AgentResult],
) -> dict[str, Any]:
    """Each node's newest answer, and the rings; `begun` is false for rings that did not begin."""
    newest = planned | {one.node: one for outcome in outcomes for one in outcome.done}
    newest |= {one.node: one for one in failed}
    return {
        "schema": "muster.agent-done/1", "do": desired.do.value,
        "nodes": [{"node": one.node, "ok": one.ok, "said": one.message, "changed": one.changed}
                  for one in newest.values()],
        "rings": [{"ring": number, "nodes": list(ring), "begun": number <= len(outcomes),
                   "worse": dict(outcomes[number - 1].worse) if number <= len(outcomes) else {},
                   "states": dict(outcomes[number - 1].states) if number <= len(outcomes) else {}}
                  for number, ring in enumerate(made, 1)]}
