"""The newest look at each node: the next one is written over it, and its counters only grow."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.coverage import Coverage
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Owner, Result, Severity, Status
from healthcheck.store import history, newest
from healthcheck.store.file import Store
from healthcheck.store.newest import Newest, NotPassed
from healthcheck.store.readings import NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.telemetry import GpuTelemetry, PortTelemetry, Telemetry
from tests.tries import tries

GPU = GpuTelemetry("0000:18:00.0", 0, "GPU-a", "160", "H100", "96.00", 31.0, 72.0, 4.0,
                   {"ecc_uncorrected": 0.0, "slow_thermal": 1.5})
SHOWN = Telemetry((("gpu.nvml", "done", 0.25),), (GPU,), (PortTelemetry("mlx5_0/1", "0000:40:00.0", 3.0),),
                  "550.54.15", "5.15", "boot1", ())
FAILED = Result("gpu-ecc", "gpu.ecc", Status.FAIL, Severity.CRITICAL, (Finding(7, 0, "GPU 3"),),
                owner=Owner.VENDOR)
REPORT = NodeReport("n1", NodeState.UNHEALTHY, "", (FAILED, Result("ok", "o.k", Status.PASS, Severity.INFO)),
                    probes=Coverage(60, 58, 0, ()))


def swept(store: Store, time: float, shown: Telemetry | None = SHOWN, report: NodeReport = REPORT, *,
          selected: bool = False) -> Newest | None:
    """What the store holds of the node after one more sweep."""
    found = {"n1": NodeReadings((), (), frozenset(), shown=shown)} if shown is not None else {}
    record(store, SweepRecord(time, time + 5, False, "test", "digest", selected=selected), [report], found)
    return next((newest.decoded(*row) for row in newest.rows(store)), None)


def test_a_look_comes_back_as_it_was_and_takes_the_room_of_one(store: Store) -> None:
    for time in (1.0, 2.0):
        found = swept(store, time)
    assert (found is not None and (found.node, found.time, found.rules, found.state, found.stage)
            == ("n1", 2.0, "digest", "unhealthy", None))
    assert found.shown == replace(SHOWN, xids=None) and found.probes_unseen == 2
    assert found.not_passed == (NotPassed("gpu-ecc", "fail", "critical", "vendor", 1),)
    assert found.statuses == {"pass": 1, "fail": 1, "unknown": 0, "skipped": 0, "explained": 0}
    assert store.rows("SELECT count(*) FROM newest")[0][0] == 1


def test_a_look_for_some_rules_alone_leaves_the_whole_one(store: Store) -> None:
    swept(store, 1.0)
    found = swept(store, 2.0, selected=True)
    assert found is not None and found.time == 1.0


def test_of_a_node_that_was_not_reached_nothing_stays_but_its_counters(store: Store) -> None:
    swept(store, 1.0, replace(SHOWN, xids=((5.0, 79),)))
    found = swept(store, 2.0, None, NodeReport("n1", NodeState.UNKNOWN, "connect: refused", (), True,
                                               "connect"))
    assert (found is not None and (found.shown, found.stage, found.state, found.time)
            == (Telemetry(), "connect", "unknown", 2.0))
    assert (found.xids == {"79": 1} and found.totals == {"ecc_uncorrected": 0, "slow_thermal": 0}
            and found.probes_unseen is None)


def test_a_look_that_is_older_than_all_that_is_kept_is_forgotten(store: Store) -> None:
    swept(store, 1000.0)
    history.prune(store, 999.0)
    assert len(list(newest.rows(store))) == 1
    history.prune(store, 1001.0)
    assert not list(newest.rows(store))


def counted(store: Store, *values: float | None, gpu: str = "GPU-a") -> float:
    """The node's uncorrected errors after looks at one GPU that showed these; None: it was not listed."""
    for value in values:
        gpus = () if value is None else (replace(GPU, id=gpu, counts={"ecc_uncorrected": value}),)
        found = swept(store, 1.0, replace(SHOWN, gpus=gpus))
        assert found is not None
    return found.totals["ecc_uncorrected"]


def test_what_a_gpu_brings_along_is_not_counted_and_what_arises_is(store: Store) -> None:
    assert counted(store, 7) == 0
    assert counted(store, 9) == 2


def test_a_gpu_that_is_lost_for_a_while_adds_nothing_by_coming_back(store: Store) -> None:
    assert counted(store, 7, 8, None, None, 8) == 1


def test_a_counter_that_began_anew_counts_from_nought(store: Store) -> None:
    assert counted(store, 7, 2) == 2


def test_another_gpu_in_its_place_has_counters_of_its_own(store: Store) -> None:
    counted(store, 7)
    assert counted(store, 500, gpu="GPU-b") == 0
    assert counted(store, 501, gpu="GPU-b") == 1


def xids(store: Store, *events: tuple[float, int], boot: str = "boot1") -> dict[str, int]:
    """The node's Xids after a look whose log held these."""
    found = swept(store, 1.0, replace(SHOWN, boot=boot, xids=events))
    assert found is not None and found.xids is not None
    return dict(found.xids)


def test_a_line_of_the_log_is_counted_once_however_often_it_is_seen(store: Store) -> None:
    assert xids(store) == {}
    assert xids(store, (5.0, 79)) == {"79": 1}
    assert xids(store, (5.0, 79), (6.0, 79), (6.5, 48)) == {"79": 2, "48": 1}
    assert xids(store, (6.5, 48)) == {"79": 2, "48": 1}         # the kernel has overwritten the older ones
    assert xids(store, (1.0, 13), boot="boot2") == {"79": 2, "48": 1, "13": 1}


def test_a_log_that_was_not_read_counts_nothing_and_forgets_nothing(store: Store) -> None:
    assert xids(store, (5.0, 79)) == {"79": 1}
    dark = swept(store, 2.0, replace(SHOWN, xids=None))
    assert dark is not None and dark.xids == {"79": 1}
    assert xids(store, (5.0, 79), (7.0, 79)) == {"79": 2}


def test_where_the_log_was_never_read_there_is_no_count_of_nought(store: Store) -> None:
    found = swept(store, 1.0, replace(SHOWN, xids=None))
    assert found is not None and found.xids is None


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 50)), max_size=3),
                min_size=2, max_size=6))
def test_counters_of_a_node_never_go_down_whatever_its_gpus_show(looks: list[list[tuple[str, int]]]) -> None:
    kept: dict[str, object] = {}
    before = 0.0
    for look in looks:
        gpus = tuple(replace(GPU, id=name, counts={"ecc_uncorrected": float(value)}) for name, value in look)
        kept = newest._kept(kept, replace(SHOWN, gpus=gpus))
        totals = kept["totals"]
        assert isinstance(totals, dict) and totals.get("ecc_uncorrected", 0.0) >= before
        before = totals.get("ecc_uncorrected", 0.0)


def test_a_node_with_ever_new_gpus_and_xids_keeps_a_bounded_memory() -> None:
    kept: dict[str, object] = {}
    for at in range(300):
        kept = newest._kept(kept,
                            replace(SHOWN, gpus=(replace(GPU, id=f"GPU-{at}"),), xids=((float(at), at),)))
    gpus, numbers = kept["gpus"], kept["xids"]
    assert isinstance(gpus, dict) and isinstance(numbers, dict)
    assert len(gpus) == 64 and len(numbers) == 65 and numbers["other"] == 236


def test_a_gpu_is_stored_under_the_field_names_of_the_first_version() -> None:
    document = GPU.to_document()
    assert document["ecc_corrected"] == 4.0 and "ecc_corrected_lifetime" not in document
    assert GpuTelemetry.from_document(document) == GPU
