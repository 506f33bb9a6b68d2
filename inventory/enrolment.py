"""The steps of an enrolment: find each node's known_hosts file, scan the nodes, decide, and write."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from inventory import pins
from inventory.enroll import Decision, EnrolmentOutcome, decide
from inventory.errors import MusterError, UsageError
from inventory.expect import Expectations
from inventory.hostkeys import KnownHosts, RevokedKeys
from inventory.model import Node
from inventory.sshconfig import SshConfig, SshTarget, options_for, resolve

_NOT_YET = Decision(EnrolmentOutcome.UNREACHED)
_DONE = {EnrolmentOutcome.PIN: ("to pin", "pinned"), EnrolmentOutcome.ADD: ("to add to", "added to"),
         EnrolmentOutcome.REPLACE: ("to replace", "replaced")}


@dataclass(frozen=True)
class NodeEnrolment:
    """One node: where it is, where its keys are looked up and pinned, and what was found and decided."""

    node: Node
    target: SshTarget
    file: str
    files: tuple[str, ...]
    hash_names: bool
    keys: tuple[bytes, ...] = ()
    certified: bool = False
    decision: Decision = _NOT_YET
    stage: str | None = None
    done: bool = False

    @property
    def label(self) -> str:
        """The outcome in one or two words."""
        return (_DONE[self.decision.outcome][self.done] if self.decision.outcome in _DONE
                else self.decision.outcome.value)


def subject_of(node: Node, config: SshConfig, option: str | None) -> NodeEnrolment:
    """Where a node is, and where its keys are kept: in the file that `option` names,
    else the first that its user would write to.

    Raises ConfigError for an ssh_config that is broken, and UsageError for one that keeps no keys.
    """
    options = options_for(node.name, config, address=node.address, user=node.user, port=node.port)
    target = resolve(node, options)
    if option is not None:
        file = os.path.expanduser(option)  # noqa: PTH111  (never raises)
        same = [each for each in target.known_hosts_files if os.path.realpath(each) == os.path.realpath(file)]
        file = same[0] if same else file
    elif (node.known_hosts_file or options.user_known_hosts_files) == ():
        raise UsageError(f"ssh_config keeps no known_hosts file for {node.name} (UserKnownHostsFile none); "
                         "name one with --known-hosts FILE")
    else:
        file = target.known_hosts_files[0]
    return NodeEnrolment(node, target, file, tuple(dict.fromkeys((file, *target.known_hosts_files))),
                         options.hash_known_hosts)


def scanned(
    subjects: Sequence[NodeEnrolment], config: SshConfig, timeout: float | None, fanout: int,
) -> list[NodeEnrolment]:
    """The same, with the keys that each node has proven,
    or the stage and the reason why it was not reached; `timeout` None: as long as their limits need."""
    from inventory.transport.base import Limits
    from inventory.transport.deadline import bounded
    from inventory.transport.scan import scan

    targets = {each.node.name: each.target for each in subjects}
    nodes = [each.node for each in subjects]
    scans = {each.node: each
             for each in scan(nodes, targets, config, bounded(nodes, Limits(fanout=fanout), timeout))}
    found = []
    for each in subjects:
        seen = scans[each.node.name]
        if seen.failure is not None:
            found.append(replace(each,
                                 decision=Decision(EnrolmentOutcome.UNREACHED, reason=seen.failure.reason),
                                 stage=seen.failure.stage.value))
        else:
            found.append(replace(each, keys=seen.keys, certified=seen.certified))
    return found


def decided(
    subjects: Iterable[NodeEnrolment], expected: Expectations | None, to_replace: Collection[str],
) -> list[NodeEnrolment]:
    """The same, with what is to be done about each."""
    known_hosts: dict[tuple[str, ...], KnownHosts] = {}
    revoked: dict[str, RevokedKeys] = {}
    found = []
    for each in subjects:
        if each.keys:
            target, list_ = each.target, each.target.revoked_host_keys
            if each.files not in known_hosts:
                known_hosts[each.files] = KnownHosts(each.files)
            if list_ is not None and list_ not in revoked:
                revoked[list_] = RevokedKeys(list_)
            decision = decide(
                each.keys, known_hosts[each.files].about(target.hostname, target.port, target.host_key_alias),
                each.file, revoked=revoked[list_] if list_ is not None else None,
                expected=expected.about(each.node.name, target) if expected is not None else None,
                replace=each.node.name in to_replace, certified=each.certified, via=each.node.transport)
            if (decision.outcome is EnrolmentOutcome.UNLISTED and expected is not None
                and (why := expected.why_unreadable(each.node.name))):
                decision = replace(decision, reason=f"{decision.reason}; {why}")
            each = replace(each, decision=decision)
        found.append(each)
    return _possible(found)


def _change(subject: NodeEnrolment) -> pins.PinChange:
    return pins.PinChange(subject.target.known_hosts_name, subject.decision.add,
                          tuple(key.blob for key in subject.decision.drop))


def _by_file(subjects: Iterable[NodeEnrolment]) -> dict[str, list[NodeEnrolment]]:
    found: dict[str, list[NodeEnrolment]] = {}
    for each in subjects:
        if each.decision.outcome.writes:
            found.setdefault(each.file, []).append(each)
    return found


def _possible(subjects: Sequence[NodeEnrolment]) -> list[NodeEnrolment]:
    """The same, with a refusal for each change that its file does not allow."""
    blocked: dict[str, str] = {}
    for file, those in _by_file(subjects).items():
        try:
            obstacles = pins.obstacles(pins.read(file), file, [_change(each) for each in those])
        except MusterError as error:
            obstacles = {each.target.known_hosts_name: str(error) for each in those}
        blocked |= {each.node.name: obstacles[name] for each in those
                    if (name := each.target.known_hosts_name) in obstacles}
    return refused(subjects, EnrolmentOutcome.BLOCKED, blocked)


def refused(
    subjects: Iterable[NodeEnrolment], outcome: EnrolmentOutcome, reasons: Mapping[str, str],
) -> list[NodeEnrolment]:
    return [replace(each, decision=Decision(outcome, reason=reasons[each.node.name]))
            if each.node.name in reasons else each for each in subjects]


def written(subjects: Sequence[NodeEnrolment]) -> list[NodeEnrolment]:
    """The same, once each file holds what was decided for it;
    a file that cannot be written refuses its nodes."""
    done: set[str] = set()
    failed: dict[str, str] = {}
    for file, those in _by_file(subjects).items():
        names = [each.node.name for each in those]
        try:
            hash_names = any(each.hash_names for each in those) or pins.has_hashed_names(pins.read(file))
            pins.write(file, [_change(each) for each in those], hash_names=hash_names)
            done.update(names)
        except MusterError as error:
            failed |= dict.fromkeys(names, str(error))
    return [replace(each, done=each.node.name in done)
            for each in refused(subjects, EnrolmentOutcome.BLOCKED, failed)]
