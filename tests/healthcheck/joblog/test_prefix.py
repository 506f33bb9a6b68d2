"""What launchers put before a line ties it to its node and rank,
and what a program prints is not taken for that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.joblog.model import JobEventKind
from healthcheck.joblog.prefix import Prefixes
from tests.healthcheck.joblog.told import CLOCK, culprit, log

ERROR = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


@pytest.mark.parametrize(("line", "node", "rank"), [
    # pdsh, clush, DeepSpeed
    (f"rack1-gpu03: {ERROR}", "rack1-gpu03", None),
    (f"rack1-gpu03: [rank27]: {ERROR}", "rack1-gpu03", 27),
    (f"10.0.0.3: {ERROR}", "10.0.0.3", None),
    (f" 3: {ERROR}", "", 3),                                                            # srun --label
    # mpirun --tag-output, Open MPI 4
    (f"[1,3]<stdout>:{ERROR}", "", 3),
    (f"[1,3]<stderr>: {ERROR}", "", 3),
    (f"[prterun-gpu01-4711@1,3]<stdout>: {ERROR}", "", 3),                              # Open MPI 5
    # --output tag-detailed
    (f"[prterun-gpu01-4711@1,3][gpu02:991]<stderr>: {ERROR}", "gpu02", 3),
    (f"Mon Nov 23 04:38:54 2026[1,2]<stdout>:{ERROR}", "", 2),                          # --timestamp-output
    # kubectl logs --prefix
    (f"[pod/trainer-worker-3/pytorch] {ERROR}", "trainer-worker-3", None),
    (f"[pod/trainer-worker-3/pytorch] 2026-11-21T10:00:00.123456789Z {ERROR}", "trainer-worker-3", None),
    (f"2026-11-21T10:00:00.123456789Z {ERROR}", "", None),
    (f"trainer-worker-3 pytorch {ERROR}", "trainer-worker-3", None),                    # stern
    (f"worker-3  | {ERROR}", "worker-3", None),                                         # docker compose
    (f"[default3]:{ERROR}", "", 3),                                                     # torchrun --tee
    (f"[trainer3]: {ERROR}", "", 3),
    (f"rack1-gpu03: [default3]:{ERROR}", "rack1-gpu03", 3),
    (f"[rank3]:{ERROR}", "", 3),
    (f"[3] {ERROR}", "", 3),                                                            # MPICH -l
    # files of a container runtime (CRI)
    (f"2026-11-21T10:00:00.123456789Z stderr F {ERROR}", "", None),
    # docker's json-file
    (f'{{"log":"{ERROR}\\n","stream":"stderr","time":"2026-11-21T10:00:00.1Z"}}', "", None),
    (f"Nov 21 10:00:00 gpu003 train[4711]: {ERROR}", "gpu003", None),                   # journalctl, syslog
    (f"gpu003: 2026-11-21 10:00:00,123 {ERROR}", "gpu003", None),
])
def test_a_line_is_tied_to_the_node_and_rank_before_it(line: str, node: str, rank: int | None) -> None:
    (event,) = log(f"{line}\n").events
    assert (event.kind, event.node, event.rank) == (JobEventKind.GPU, node, rank)


@pytest.mark.parametrize("line", [ERROR, f"torch.cuda.{ERROR}", f"ERROR: {ERROR}", f"Epoch: {ERROR}",
                                  f"main: {ERROR}", f"[INFO] {ERROR}"])
def test_words_of_a_program_are_no_node(line: str) -> None:
    (event,) = log(f"{line}\nepoch 1\nepoch 2\n").events
    assert (event.node, event.rank) == ("", None)


def test_a_name_with_a_number_is_a_node_only_where_most_lines_begin_with_one_or_it_is_known() -> None:
    text = f"starting\nloading\nepoch1: {ERROR}\ndone\nbye\n"
    assert log(text).events[0].node == ""
    assert log(text, ("epoch1",)).events[0].node == "epoch1"
    assert (log(text.replace("epoch1", "RACK1-gpu03.cluster"), ("rack1-gpu03",)).events[0].node
            == "RACK1-gpu03.cluster")


def test_a_port_behind_a_nodes_name_is_no_prefix() -> None:
    (event,) = log("gpu007:1:2 [0] x.cc:1 NCCL WARN Cuda failure 'out of memory'\n", ("gpu007",)).events
    assert event.node == "gpu007"


def test_a_label_of_srun_is_no_rank_where_ranks_of_their_own_stand_behind_it() -> None:
    text = ("0: [rank3]: ValueError: x\n1: [rank11]: ValueError: y\n1: rack1-gpu03:1:2 [0] x.cc:1 NCCL WARN "
            "y\n1: slurmstepd: error: x\n")
    assert [(event.rank, event.node) for event in log(text).events
            if event.kind is JobEventKind.EXCEPTION] == [(3, ""),
                                                         (11, "rack1-gpu03")]


def test_the_rank_on_a_node_becomes_the_rank_of_the_job() -> None:
    text = "".join(f"{node}: {node}:1:2 [{at}] NCCL INFO comm 0x1 rank {8 * number + at} nranks 16 cudaDev "
                   f"{at} busId 1 - Init COMPLETE\n" for number, node in enumerate(("gpu001", "gpu002"))
                   for at in range(8)) + f"gpu002: [default3]:{ERROR}\n"
    (event,) = log(text).events
    assert (event.node, event.rank) == ("gpu002", 11)
    # Of several nodes no one says whose third it is.
    assert log(text.replace(f"gpu002: [default3]:{ERROR}", f"[default3]:{ERROR}")).events[0].rank is None


def test_the_first_failure_of_a_parallel_shell_names_its_node() -> None:
    text = "gpu001: step 1\ngpu002: step 1\npdsh@head: gpu002: ssh exited with exit code 255\n"
    first = culprit(text)
    assert (first.who.node, first.words) == ("gpu002", "ended with exit code 255")


def test_times_before_a_line_are_its_time() -> None:
    text = "2026-11-21T10:00:00.5Z gpu001: hello\n2026-11-21T10:00:07+02:00 gpu001: [rank1]: ValueError: x\n"
    read = log(text, ("gpu001",))
    assert read.events[0].time == 1795248007.0
    assert read.span == (1795248007.0, 1795255200.5)


@given(st.lists(st.one_of(st.sampled_from(["3: ", "[1,3]<stdout>:", "gpu001: ", "[default1]:",
                                           "2026-11-21T10:00:00Z ", "9999-99-99 99:99:99 ",
                                           "Mon Nov 99 04:38:54 2026[1,2]<stdout>:", "[pod/a/b] ", "a-1 b ",
                                           "\n", "x"]), st.text(max_size=8)), max_size=20))
def test_what_is_left_of_a_line_is_its_end(parts: list[str]) -> None:
    lines = "".join(parts).split("\n")
    prefixes = Prefixes(lines, CLOCK, ("gpu001",))
    for line in lines:
        assert line.endswith(prefixes.split(line)[0])


@pytest.mark.parametrize(("rule", "several"), [("-" * 16, "gpu[001-002]"), ("-" * 15, "gpu[001-002] (2)")])
def test_a_line_in_the_block_of_one_node_is_that_nodes_and_in_that_of_several_no_ones(
    rule: str, several: str,
) -> None:
    text = "\n".join([rule, "gpu003", rule, "step 1", ERROR, rule, several, rule, "step 1", ERROR, rule,
                      "login", rule, ERROR, ""])
    found = [(event.line, event.node) for event in log(text, ("login",)).events]
    assert found == [(5, "gpu003"), (10, ""), (14, "login")]


@pytest.mark.parametrize("lines",
                         [["-" * 60, "gpu003", "-" * 60], ["-" * 16, "gpu003"],
                          ["-" * 16, "summary", "-" * 16], ["-" * 16, "gpu003 failed", "-" * 16],
                          ["-" * 15, "gpu003", "-" * 16], ["-" * 16, "gpu003", "", "-" * 16]])
def test_what_is_no_heading_of_a_block_names_no_node(lines: list[str]) -> None:
    (event,) = log("\n".join([*lines, ERROR])).events
    assert event.node == ""
