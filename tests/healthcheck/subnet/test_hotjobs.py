"""Jobs at hot spots: which jobs' node pairs pass a port, against a recount of every pair; and what is not
known is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.burnways import BurnPort
from healthcheck.subnet.check import page
from healthcheck.subnet.check.findings import FabricJobs, JobHotSpots
from healthcheck.subnet.jobroutes import JobAtPort, JobsBy, PlacedPort, PortJobs, jobs_at
from healthcheck.subnet.model import FabricEnd, Subnet
from inventory.jobnodes import JobNodes
from tests.healthcheck.subnet.recount import by_even_spread, by_tables
from tests.healthcheck.subnet.trees import Tree, leaf, spine
from tests.tries import tries

TREES = st.builds(Tree, leaves=st.integers(2, 3), hosts=st.integers(1, 3), spines=st.integers(1, 2),
                  cables=st.integers(1, 2))
TREE = Tree(leaves=2, hosts=2, spines=2)


def placed(tree: Tree) -> list[PlacedPort]:
    return [PlacedPort(port.node, port.end, leaf(at // tree.hosts)) for at, port in enumerate(tree.ports())]


def channels(subnet: Subnet) -> list[FabricEnd]:
    return [port.end for port in subnet.ports()]


def recounted(subnet: Subnet, tree: Tree, job: JobNodes, by: JobsBy) -> dict[FabricEnd, int]:
    """By port how many of the job's pairs load it, pair by pair."""
    own = [port for port in tree.ports() if port.node in job.nodes]
    found = dict.fromkeys(channels(subnet), 0)
    for at, one in enumerate(own):
        for other in own[at + 1:]:
            pair = [BurnPair(BurnPort(one.node, one.end), BurnPort(other.node, other.end), 1.0)]
            for end in by_tables(subnet, pair) if by is JobsBy.ROUTES else by_even_spread(subnet, pair):
                found[end] += 1
    return found


@settings(deadline=None, max_examples=tries(60))
@given(TREES, st.integers(0, 999), st.booleans(), st.data())
def test_every_port_has_the_pairs_that_a_recount_of_every_pair_finds(tree: Tree, seed: int, tables: bool,
                                                                     data: st.DataObject) -> None:
    subnet = tree.at_random(seed)
    shown = subnet if tables else replace(subnet, routes={})
    by = JobsBy.ROUTES if tables else JobsBy.MAY
    names = [port.node for port in tree.ports()]
    jobs = [JobNodes(str(number), tuple(data.draw(st.lists(st.sampled_from(names), min_size=2, unique=True))))
            for number in (11, 12)]
    wanted = {job.job: recounted(subnet, tree, job, by) for job in jobs}
    for port in jobs_at(shown, placed(tree), jobs, channels(subnet)):
        assert port.by is by
        assert {one.job: one.pairs for one in port.jobs} == {job: pairs[port.end]
                                                             for job, pairs in wanted.items()
                                                             if pairs[port.end]}
        assert all(one.unknown == 0 for one in port.jobs)
        assert [one.pairs for one in port.jobs] == sorted((one.pairs for one in port.jobs), reverse=True)


def test_a_job_with_one_node_passes_no_port() -> None:
    subnet = TREE.by_destination()
    assert all(not port.jobs
               for port in jobs_at(subnet, placed(TREE), [JobNodes("7", ("n000",))], channels(subnet)))


def test_adapters_of_other_rails_are_not_taken_to_talk_to_each_other() -> None:
    subnet = TREE.by_destination()
    railed = [replace(one, rail=at % 2) for at, one in enumerate(placed(TREE))]
    up = [FabricEnd(leaf(0), number) for number in (3, 4)]
    crossing, same = JobNodes("1", ("n000", "n003")), JobNodes("2", ("n000", "n002"))
    assert {one.job for port in jobs_at(subnet, railed, [crossing, same], up) for one in port.jobs} == {"2"}


def test_a_pair_whose_way_meets_a_switch_without_a_table_is_not_known_and_its_ports_go_by_topology() -> None:
    whole = TREE.subnet(lambda _, to: to % 2, lambda _, __: 0)
    subnet = replace(whole, routes={guid: table for guid, table in whole.routes.items() if guid != spine(0)})
    job = JobNodes("5", ("n000", "n002"))       # both ways lead over the first spine
    leaving, at_spine = jobs_at(subnet, placed(TREE), [job], [FabricEnd(leaf(0), 3), FabricEnd(spine(0), 2)])
    assert (leaving.by, leaving.jobs) == (JobsBy.ROUTES, (JobAtPort("5", 0, 1, unknown=1),))
    assert (at_spine.by, at_spine.jobs) == (JobsBy.MAY, (JobAtPort("5", 1, 1),))
    assert page.at_port(leaving,
                        None) == "jobs by routes: none that is known; routes of 1 node pair are not known"


def test_a_line_names_three_jobs_and_counts_the_others() -> None:
    port = PortJobs(FabricEnd(leaf(0), 3), JobsBy.MAY,
                    tuple(JobAtPort(str(at), 5 - at, 6) for at in range(5)))
    assert page.at_port(port, None) == (
        "jobs that may pass, by topology (no forwarding table): 0 (5 of 6 node pairs), 1 (4 of 6 node "
        "pairs), 2 (3 of 6 node pairs), 2 more")


@pytest.mark.parametrize(("found", "said"), [
    (FabricJobs("squeue", "squeue was not found"), ["jobs: not known: squeue was not found"]),
    (FabricJobs("squeue", unmeasured=("",), measured=False, jobs=(JobHotSpots("4", 2, 0, 0, 0, 0),)), [
        "jobs (squeue): 1 with several nodes; 0 with one node left out",
        "hot ports of the subnet are not known: there are no two samples of counters"]),
    (FabricJobs("squeue", single=3, ports=2, jobs=(JobHotSpots("4", 8, 1, 2, 1, 1),)), [
        "jobs (squeue): 1 with several nodes; 3 with one node left out",
        "of 2 ports it is not known whether they are hot",
        "job 4: 8 nodes, 2 hot ports by routes, 1 that it may pass, 1 not known, as routes are not, where 1 "
        "of its nodes are is not known"]),
])
def test_what_is_not_known_is_said(found: FabricJobs, said: list[str]) -> None:
    assert list(page.job_lines(found)) == said
