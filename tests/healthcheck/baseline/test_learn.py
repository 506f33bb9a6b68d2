"""Learning counts what equal machines say, flags what a person should look at, adds up in any order and
forgets what no one says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.baseline import flags
from healthcheck.baseline.approval import ApprovalRule, approve, choose, short_id
from healthcheck.baseline.difference import TemplateChange, differences
from healthcheck.baseline.learn import Learner, boot_key, current, lean, merge
from healthcheck.config.codec import from_plain, to_plain
from healthcheck.kernellog.masking import template
from healthcheck.kernellog.model import Baseline, Digest, KernelEventKind, Phase
from inventory.errors import UsageError
from tests.healthcheck.baseline.books import (
    CATALOGUE,
    DAY,
    H100,
    NEXT,
    XID,
    all_approved,
    digest,
    fleet,
    learn,
    learned,
    message,
)
from tests.tries import tries

MEMORY, LINK = ("Memory: 2113000000K/2147483648K available",
                "mlx5_core 0000:18:00.0: firmware version: 28.39.1002")


def test_a_template_is_counted_by_nodes_and_by_boots() -> None:
    found = learned(digest("n1", "a", message("usb 1-1: new device", 2), MEMORY),
                    digest("n1", "b", message("usb 3-2: new device", 5, Phase.RUNNING, 4)),
                    digest("n2", "c", MEMORY))
    usb, memory = found.proposed[template("usb 1-1: new device")], found.proposed[template(MEMORY)]
    assert (found.nodes, found.boots, found.first, found.last) == (2, 3, DAY, DAY)
    assert (usb.nodes, usb.boots, usb.least, usb.most, usb.busiest, usb.on) == (1, 2, 2, 5, 5, "n1")
    assert (usb.phases, usb.priority, usb.example) == ((Phase.KERNEL, Phase.RUNNING), 4,
                                                       "usb 1-1: new device")
    assert (memory.nodes, memory.boots, memory.on) == (2, 2, "")
    assert not found.known


def test_a_boot_counts_once_however_often_it_is_read() -> None:
    again, other = digest("n1", "4f0c-aa", MEMORY), digest("n2", "4f0c-aa", MEMORY)
    first = learned(again, again)
    assert first.boots == 1
    learner = Learner(first.learned_boots)
    for one in (again, other):
        learner.add(one)
    assert (learner.offered, learner.boots, list(learner.learned_boots)) == (2, 1, ["n2"])


def test_a_log_without_a_boot_id_is_known_by_what_it_says() -> None:
    one = digest("n1", "", MEMORY)
    assert boot_key(one) == boot_key(digest("n1", "", MEMORY)) != boot_key(digest("n1", "", LINK))


def test_phases_of_boots_give_the_earliest_and_the_latest_second() -> None:
    found = learned(digest("n1", "a", began={Phase.INITRD: 2.0}),
                    digest("n2", "b", began={Phase.INITRD: 3.5, Phase.SERVICES: 9.0}))
    assert found.phases == {Phase.INITRD: (2.0, 3.5), Phase.SERVICES: (9.0, 9.0)}


@pytest.mark.parametrize(("said", "flag"), [
    (XID, "known fault gpu-lost"), (message("BUG: unable to handle page fault", kind=KernelEventKind.TRACE),
                                    "report"),
    (message("pcieport 0000:00:01.0: told", priority=3), "priority 3"),
    ("cfg80211: failed to load regulatory.db", "trouble failed"),
    ("mlx5_core 0000:18:00.0: Link down", "trouble link down"),
    ("ata1.00: device is degraded", "trouble degraded"),
])
def test_what_looks_like_trouble_is_flagged_though_every_node_says_it(said: str, flag: str) -> None:
    found = learned(*(digest(f"n{number}", "a", said) for number in range(4)))
    (one,) = found.proposed.values()
    assert flag in one.flags
    assert flags.RARELY not in one.flags


def test_what_few_nodes_or_boots_say_is_flagged_as_rare() -> None:
    says = {f"n{number}": [MEMORY, *([LINK] if number == 3 else [])] for number in range(10)}
    found = learned(*fleet(says))
    assert found.proposed[template(LINK)].flags == (flags.RARELY,)
    assert found.proposed[template(MEMORY)].flags == ()


@pytest.mark.parametrize("text", [
    "PCI: Using host bridge windows from ACPI; if necessary, use \"pci=nocrs\" and report a bug",
    "mlx5_core: Link up", "EXT4-fs (sda2): mounted filesystem with ordered data mode. Opts: "
    "errors=remount-ro"[:50], "AER: enabled with IRQ 24",
    "random: crng init done", "systemd[1]: Started Journal Service.",
    "x86/fpu: Supporting XSAVE feature 0x001: 'x87 floating point registers'",
])
def test_what_every_healthy_machine_says_is_no_trouble(text: str) -> None:
    assert flags.trouble(text) is None


def test_merging_keeps_when_it_was_first_seen_who_approved_it_and_why() -> None:
    old = all_approved(learned(*fleet({"n1": [MEMORY], "n2": [MEMORY]})))
    both = merge(old, learned(*fleet({"n2": [MEMORY, LINK], "n3": [MEMORY]}, "b2"), day=NEXT))
    memory, link = both.known[template(MEMORY)], both.proposed[template(LINK)]
    assert (memory.by, memory.why, memory.first_seen, memory.last_seen) == ("anna", "acceptance", DAY, NEXT)
    assert (memory.nodes, memory.boots, memory.on, both.nodes, both.boots) == (3, 4, "", 3, 4)
    assert (link.nodes, link.boots, link.on, link.first_seen) == (1, 1, "n2", NEXT)
    assert (both.first, both.last) == (DAY, NEXT)


def test_nothing_new_to_learn_changes_nothing() -> None:
    old = all_approved(learned(*fleet({"n1": [MEMORY]})))
    assert merge(old, learn([], H100, NEXT)) == old


SAYS = st.lists(st.sampled_from([MEMORY, LINK, "a", "b", "c"]), max_size=4, unique=True)
LOOKS = st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3", "gpu-7"]), st.integers(0, 10**6), SAYS),
                 min_size=1, max_size=4)


def _learned(looks: list[tuple[str, int, list[str]]], part: str) -> Baseline:
    return learn([digest(node, f"{part}{boot}", *says) for node, boot, says in looks], H100,
                 f"2026-11-0{part}")


@given(LOOKS, LOOKS, LOOKS)
@settings(deadline=None, max_examples=tries(60))
def test_merging_is_associative(one: list[tuple[str, int, list[str]]], two: list[tuple[str, int, list[str]]],
                                three: list[tuple[str, int, list[str]]]) -> None:
    a, b, c = _learned(one, "1"), _learned(two, "2"), _learned(three, "3")
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


@given(LOOKS, LOOKS)
@settings(deadline=None, max_examples=tries(60))
def test_learning_in_portions_counts_as_learning_at_once(one: list[tuple[str, int, list[str]]],
                                                         two: list[tuple[str, int, list[str]]]) -> None:
    digests = ([digest(node, f"1{boot}", *says) for node, boot, says in one],
               [digest(node, f"2{boot}", *says) for node, boot, says in two])
    whole, parts = (learn([*digests[0], *digests[1]], H100, DAY),
                    merge(learn(digests[0], H100, DAY), learn(digests[1], H100, DAY)))
    counts = [[(each.template, each.nodes, each.on, each.boots, each.least, each.most)
               for each in found.proposed.values()] for found in (whole, parts)]
    assert counts[0] == counts[1]
    assert (whole.nodes, whole.boots) == (parts.nodes, parts.boots)


def test_what_is_not_seen_for_too_long_expires_and_comes_back_when_it_is_seen() -> None:
    held = all_approved(learned(*fleet({"n1": [MEMORY, LINK]})))
    held = merge(held, learned(*fleet({"n1": [MEMORY]}, "b2"), day=NEXT))
    later = current(replace(held, expires_days=30), "2026-12-05")
    assert set(later.known) == {template(MEMORY)}
    assert set(later.expired) == {template(LINK)}
    assert set(current(later, "2026-11-25").known) == {template(MEMORY), template(LINK)}
    again = merge(later, learned(*fleet({"n1": [LINK]}, "b3"), day="2026-12-05"))
    assert set(current(again, "2026-12-05").known) == {template(MEMORY), template(LINK)}
    assert again.known[template(LINK)].by == "anna"


def test_what_so_many_boots_do_not_say_expires() -> None:
    held = replace(all_approved(learned(*fleet({"n1": [MEMORY, LINK]}))), expires_boots=3)
    for number in range(2):
        held = merge(held, learned(*fleet({"n1": [MEMORY]}, f"c{number}")))
    assert not current(held, DAY).expired
    held = merge(held, learned(*fleet({"n1": [MEMORY]}, "d")))
    assert set(current(held, DAY).expired) == {template(LINK)}


def test_approving_a_known_fault_is_refused_by_rule_by_name_and_when_meant() -> None:
    held = learned(*(digest(f"n{number}", "a", XID, MEMORY) for number in range(8)))
    chosen = choose(held, (), ApprovalRule(0.95, 1), flagged=False)
    assert [one.template for one in chosen.approved] == [template(MEMORY)]
    assert [one.template for one in chosen.held_back] == [template(XID)]
    for name in (short_id(template(XID)), "NVRM: Xid", template(XID)):
        with pytest.raises(UsageError,
                           match="known fault gpu-lost of the catalogue, and no baseline can accept one"):
            choose(held, (short_id(template(MEMORY)), name), ApprovalRule(), flagged=True)


def test_flags_are_worked_out_anew_and_not_believed() -> None:
    held = learned(digest("n1", "a", XID))
    edited = replace(held, proposed={text: replace(one, flags=()) for text, one in held.proposed.items()})
    (one,) = flags.flagged(edited, CATALOGUE).proposed.values()
    assert flags.is_known_fault(one.flags)


def test_what_is_flagged_is_approved_only_when_it_is_named_by_itself_and_meant() -> None:
    failed, lost = "probe of 0000:05:00.7 failed", "probe of 0000:06:00.7 lost: gone"
    held = learned(*(digest(f"n{number}", "a", failed, lost, MEMORY) for number in range(4)))
    assert [one.template for one in choose(held, (), ApprovalRule(0.9), flagged=False).approved] == [
        template(MEMORY)]
    for names, meant in ((("probe of",), True), ((short_id(template(failed)),), False)):
        with pytest.raises(UsageError, match="is flagged"):
            choose(held, names, ApprovalRule(), flagged=meant)
    assert [one.example for one in choose(held, (MEMORY.replace("211", "987"),), ApprovalRule(),
                                          flagged=False).approved] == [MEMORY]
    with pytest.raises(UsageError, match="--flagged needs single names"):
        choose(held, (), ApprovalRule(0.9), flagged=True)
    (one,) = choose(held, (short_id(template(failed)),), ApprovalRule(), flagged=True).approved
    after = approve(held, [one], "anna", "this board says so")
    assert (after.known[template(failed)].by, after.known[template(failed)].flags) == ("anna", ())
    assert template(failed) not in after.proposed


def test_the_rule_asks_for_nodes_boots_and_phases() -> None:
    held = learned(digest("n1", "a", MEMORY, message("late", phase=Phase.RUNNING)),
                   digest("n2", "b", MEMORY, message("late", phase=Phase.RUNNING)), digest("n2", "c", MEMORY),
                   digest("n3", "d", MEMORY))
    def taken(rule: ApprovalRule) -> set[str]:
        return {one.template for one in choose(held, (), rule, flagged=False).approved}
    assert taken(ApprovalRule(0.6)) == {template(MEMORY), "late"}
    assert taken(ApprovalRule(0.7)) == taken(ApprovalRule(None, 3)) == taken(
        ApprovalRule(phases=(Phase.KERNEL,))) == {template(MEMORY)}
    assert taken(ApprovalRule(0.6, phases=(Phase.RUNNING, Phase.SERVICES))) == {"late"}
    with pytest.raises(UsageError, match="--seen-on 95% --boots 3"):
        choose(held, (), ApprovalRule(), flagged=False)
    with pytest.raises(UsageError, match="no proposal has this id or begins so"):
        choose(held, ("nowhere",), ApprovalRule(), flagged=False)


def test_differences_are_reported_by_kind() -> None:
    first = all_approved(learned(*fleet({"n1": [MEMORY, LINK, "a"], "n2": [MEMORY, "a"]})))
    second = all_approved(learned(*fleet({"n1": [MEMORY, LINK, "b"], "n2": [MEMORY, LINK, "b"]}, "b2"),
                                  day=NEXT))
    found = {one.template: one.change for one in differences(first, second)}
    assert found == {"b": TemplateChange.NEW, "a": TemplateChange.GONE,
                     template(LINK): TemplateChange.APPROVED}
    assert {each.change for each in differences(second, first)} == {
        TemplateChange.NEW, TemplateChange.GONE, TemplateChange.WITHDRAWN}
    gone = current(replace(first, expires_days=1), NEXT)
    assert {one.change for one in differences(first, gone)} == {TemplateChange.EXPIRED}
    one, all_ = learned(*fleet({"n1": ["a"], "n2": []})), learned(*fleet({"n1": ["a"], "n2": ["a"]}))
    assert [(each.change, each.shares) for each in differences(one, all_)] == [
        (TemplateChange.SHARE, (0.5, 1.0))]
    assert differences(first, first) == []


def test_an_agent_gets_what_it_judges_by_and_no_more() -> None:
    held = all_approved(learned(*fleet({"n1": [MEMORY, XID], "n2": [MEMORY, LINK]}),
                                digest("n3", "x", began={Phase.INITRD: 2.0})))
    sent = lean(current(held, NEXT))
    assert from_plain(Baseline, to_plain(sent)) == sent
    assert set(sent.known) == set(held.known)
    assert not sent.proposed
    assert "anna" not in str(to_plain(sent))


def test_the_same_digests_in_any_order_give_the_same_baseline() -> None:
    says: list[Digest] = fleet({"n1": [MEMORY], "n2": [LINK], "n3": [MEMORY, LINK]})
    assert learned(*says) == learned(*reversed(says))
