"""The steps of an enrolment: find each node's known_hosts file, scan the nodes, decide, and write."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from inventory import pins
from inventory.enroll import Decision, EnrolmentOutcome, decide
from inventory.errors import MusterError
from inventory.expect import Expectations
from inventory.hostkeys import HostKeyFiles, KnownHost, RevokedKeys
from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.sshtarget import SshTarget, options_for, own_known_hosts, resolve

_NOT_YET = Decision(EnrolmentOutcome.UNREACHED)
_DONE = {EnrolmentOutcome.PIN: ("to pin", "pinned"), EnrolmentOutcome.ADD: ("to add to", "added to"),
         EnrolmentOutcome.REPLACE: ("to replace", "replaced")}


@dataclass(frozen=True)
class NodeEnrolment:
    """One node: where its keys are looked up (`files`), pinned (`file`), replaced (`ours`); the outcome."""

    node: Node
    target: SshTarget
    file: str
    files: tuple[str, ...]
    ours: frozenset[str]
    hash_names: bool
    keys: tuple[bytes, ...] = ()
    certified: bool = False
    decision: Decision = _NOT_YET
    stage: str | None = None
    done: bool = False

    @property
    def written_files(self) -> tuple[str, ...]:
        """The files that its decision changes."""
        return tuple(dict.fromkeys((*([self.file] if self.decision.add else []),
                                    *(key.file for key in self.decision.drop))))

    @property
    def label(self) -> str:
        """The outcome in one or two words."""
        return (_DONE[self.decision.outcome][self.done] if self.decision.outcome in _DONE
                else self.decision.outcome.value)


def subject_of(node: Node, config: SshConfig, option: str | None) -> NodeEnrolment:
    """Where a node is, and where its keys are kept: in the file `option`, else the first that the inventory
    names, else muster's own. Files of ssh are read, and written only if named. Raises ConfigError."""
    options = options_for(node.name, config, address=node.address, user=node.user, port=node.port)
    target = resolve(node, options)
    if option is not None:
        file = os.path.expanduser(option)  # noqa: PTH111  (never raises)
        same = [each for each in target.known_hosts_files if os.path.realpath(each) == os.path.realpath(file)]
        file = same[0] if same else file
    else:
        file = node.known_hosts_file[0] if node.known_hosts_file else own_known_hosts()
    musters = (own_known_hosts(), *node.known_hosts_file)
    # HashKnownHosts is about the files that ssh writes.
    hash_names = options.hash_known_hosts and file in target.known_hosts_files and file not in musters
    return NodeEnrolment(node, target, file, tuple(dict.fromkeys((file, *target.known_hosts_files))),
                         frozenset((file, *musters)), hash_names)


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
    subjects = tuple(subjects)
    known = _known(subjects, to_replace)
    if expected is not None:
        expected.prepare((each.node.name, each.target) for each in subjects if each.keys)
    revoked: dict[str, RevokedKeys] = {}
    found = []
    for each in subjects:
        if each.keys:
            target, list_ = each.target, each.target.revoked_host_keys
            if list_ is not None and list_ not in revoked:
                revoked[list_] = RevokedKeys(list_)
            decision = decide(
                each.keys, known[each.node.name], each.ours,
                revoked=revoked[list_] if list_ is not None else None,
                expected=expected.about(each.node.name, target) if expected is not None else None,
                replace=each.node.name in to_replace, certified=each.certified, via=each.node.transport)
            if (decision.outcome is EnrolmentOutcome.UNLISTED and expected is not None
                and (why := expected.why_unreadable(each.node.name))):
                decision = replace(decision, reason=f"{decision.reason}; {why}")
            each = replace(each, decision=decision)
        found.append(each)
    return _possible(found)


def without_key(nodes: Iterable[Node], config: SshConfig) -> list[Node]:
    """The nodes of which the files hold neither a host key nor an authority; no node is asked."""
    files = HostKeyFiles()
    lacking = []
    for node in nodes:
        subject = subject_of(node, config, None)
        known = files.of(subject.files).about(*_host(subject))
        if not known.keys and not known.portless and not known.authorities:
            lacking.append(node)
    return lacking


def _known(subjects: Iterable[NodeEnrolment], to_replace: Collection[str]) -> dict[str, KnownHost]:
    """What is known of each node: of all lines, unless plain ones hold every key that it has shown."""
    files = HostKeyFiles()
    found: dict[str, KnownHost] = {}
    groups: dict[tuple[str, ...], list[NodeEnrolment]] = {}
    for each in subjects:
        if each.keys:
            groups.setdefault(each.files, []).append(each)
    for names, those in groups.items():
        known_hosts = files.of(names)
        known_hosts.prepare(map(_host, those), all_lines=False, remember=True)
        found |= {each.node.name: known_hosts.enough(*_host(each)) for each in those}
        unsure = [each for each in those if not found[each.node.name].whole
                  and (each.node.name in to_replace or not found[each.node.name].holds(each.keys))]
        known_hosts.prepare(map(_host, unsure), remember=True)
        found |= {each.node.name: known_hosts.about(*_host(each)) for each in unsure}
    return found


def _host(subject: NodeEnrolment) -> tuple[str, int, str | None]:
    return subject.target.hostname, subject.target.port, subject.target.host_key_alias


def _changes(subjects: Iterable[NodeEnrolment]) -> dict[str, list[tuple[NodeEnrolment, pins.PinChange]]]:
    """What changes in each file; files that get keys come first, so that a host has one at any time."""
    adding: dict[str, list[tuple[NodeEnrolment, pins.PinChange]]] = {}
    dropping: dict[str, list[tuple[NodeEnrolment, pins.PinChange]]] = {}
    for each in subjects:
        name, decision = each.target.known_hosts_name, each.decision
        if decision.outcome.writes:
            dropped: dict[str, list[bytes]] = {each.file: []} if decision.add else {}
            for key in decision.drop:
                dropped.setdefault(key.file, []).append(key.blob)
            for file, old in dropped.items():
                add = decision.add if file == each.file else ()
                (adding if add else dropping).setdefault(file, []).append(
                    (each, pins.PinChange(name, add, tuple(old))))
    return {file: [*adding.get(file, ()), *dropping.get(file, ())] for file in {**adding, **dropping}}


def _possible(subjects: Sequence[NodeEnrolment]) -> list[NodeEnrolment]:
    """The same, with a refusal for each change that its file does not allow."""
    blocked: dict[str, str] = {}
    for file, those in _changes(subjects).items():
        try:
            obstacles = pins.obstacles(pins.read(file), file, [change for _, change in those])
        except MusterError as error:
            obstacles = {each.target.known_hosts_name: str(error) for each, _ in those}
        blocked |= {each.node.name: obstacles[name] for each, _ in those
                    if (name := each.target.known_hosts_name) in obstacles}
    return refused(subjects, EnrolmentOutcome.BLOCKED, blocked)


def refused(
    subjects: Iterable[NodeEnrolment], outcome: EnrolmentOutcome, reasons: Mapping[str, str],
) -> list[NodeEnrolment]:
    return [replace(each, decision=Decision(outcome, reason=reasons[each.node.name]))
            if each.node.name in reasons else each for each in subjects]


def written(subjects: Sequence[NodeEnrolment]) -> list[NodeEnrolment]:
    """The same, once each file holds what was decided; one that cannot be written refuses its nodes."""
    done: set[str] = set()
    failed: dict[str, str] = {}
    own = own_known_hosts()
    for file, all_ in _changes(subjects).items():
        those = [(each, change) for each, change in all_ if each.node.name not in failed]
        names = [each.node.name for each, _ in those]
        try:
            hash_names = file != own and (any(each.hash_names for each, _ in those)
                                          or pins.has_hashed_names(pins.read(file)))
            pins.write(file, [change for _, change in those], hash_names=hash_names)
            done.update(names)
        except MusterError as error:
            failed |= dict.fromkeys(names, str(error))
    done -= failed.keys()
    return [replace(each, done=each.node.name in done)
            for each in refused(subjects, EnrolmentOutcome.BLOCKED, failed)]
