"""Fixtures that several test folders use."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import settings

from tests import forked, packagedrules
from tests.testbed import fuse
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, Sshd, sshd
from tests.tries import tries
from tests.workers import pytest_addoption, pytest_runtestloop  # noqa: F401  (hooks)

# Of each property that does not say how many; how long one takes says how busy the machine is.
settings.register_profile("muster", parent=settings(), max_examples=tries(75), deadline=None)
settings.load_profile("muster")

# Files that take longest, longest first; most of that is waiting. Begun early, none is left for one worker at
# the end, and with short ones between them, the cores have work meanwhile.
LONGEST = (
    "tests/healthcheck/help/test_commands_run.py",
    "tests/inventory/transport/test_slow_nodes.py",
    "tests/inventory/transport/test_both.py",
    "tests/inventory/transport/test_sruntree.py",
    "tests/scenarios/test_scenarios.py",
    "tests/provisioning/agent/test_systemd.py",
    "tests/test_bundle.py",
    "tests/provisioning/firmware/test_update.py",
    "tests/provisioning/actions/test_slurm_power.py",
    "tests/inventory/transport/test_hops.py",
    "tests/provisioning/soak/test_soak.py",
    "tests/healthcheck/sweep/test_farm.py",
    "tests/healthcheck/agent/test_agent_run.py",
    "tests/healthcheck/test_reach_limits.py",
    "tests/healthcheck/test_end_to_end.py",
    "tests/healthcheck/test_invariants_live.py",
    "tests/healthcheck/test_log_events.py",
    "tests/provisioning/actions/test_backends.py",
    "tests/inventory/transport/test_ssh.py",
    "tests/healthcheck/watch/test_causefiles.py",
    "tests/healthcheck/burnin/test_guilty.py",
    "tests/provisioning/actions/test_kubernetes_hands.py",
    "tests/provisioning/burnin/test_whole.py",
    "tests/healthcheck/test_check_document.py",
    "tests/provisioning/lease/test_leases_in_slurm.py",
    "tests/provisioning/bmc/test_makers.py",
    "tests/provisioning/lease/test_disruptive.py",
    "tests/healthcheck/test_docker_live.py",
    "tests/provisioning/bmc/test_accounts.py",
    "tests/provisioning/bringup/test_os_kill.py",
    "tests/provisioning/triage/test_slurm.py",
    "tests/healthcheck/test_record.py",
    "tests/healthcheck/sweep/test_evidence.py",
    "tests/healthcheck/test_every.py",
    "tests/healthcheck/exporter/test_prometheus.py",
    "tests/healthcheck/subnet/test_fabric_check_live.py",
    "tests/provisioning/actions/test_kubernetes.py",
    "tests/provisioning/burnin/test_nccltests_engine.py",
    "tests/provisioning/bringup/steps/test_onmachine_steps.py",
    "tests/healthcheck/agent/test_log_fault.py",
    "tests/healthcheck/sweep/test_from_prometheus.py",
    "tests/provisioning/bringup/test_sixtyfour.py",
    "tests/healthcheck/test_scrub.py",
    "tests/healthcheck/gate/test_slurm.py",
    "tests/healthcheck/test_init.py",
    "tests/corpus/test_fleets.py",
    "tests/provisioning/demo/test_fleet.py",
    "tests/provisioning/firmware/inband/test_band_update.py",
    "tests/provisioning/firmware/test_update_command.py",
    "tests/provisioning/console/test_sol_live.py",
    "tests/healthcheck/exporter/test_planted.py",
    "tests/test_many_nodes.py",
    "tests/scenarios/test_unmeasured.py",
    "tests/month/test_stories.py",
    "tests/healthcheck/change/test_change_command.py",
    "tests/provisioning/bringup/steps/test_os_ssh_live.py",
    "tests/healthcheck/watch/test_gloo.py",
    "tests/provisioning/actions/test_slurm_hands.py",
    "tests/inventory/transport/test_srun.py",
    "tests/provisioning/triage/test_kubernetes.py",
    "tests/inventory/transport/test_hung_home.py",
    "tests/healthcheck/test_containerd_live.py",
    "tests/provisioning/test_fabric_live.py",
    "tests/healthcheck/subnet/test_slurm_live.py",
    "tests/healthcheck/collector/test_collector_cost.py",
    "tests/inventory/transport/test_quiet.py",
)
_BETWEEN = 6


def pytest_configure(config: pytest.Config) -> None:
    # What is made while the tests are read stays until the end: it is not looked through for garbage then,
    # nor, after that, again and again.
    gc.disable()
    packagedrules.keep()
    os.environ.pop("SSH_AUTH_SOCK", None)   # no test uses the agent of whoever runs it
    # What a shell sends to the background has SIGINT ignored, and under nohup SIGHUP; children inherit that,
    # and tests send both to theirs. A handler of ours, even one that does nothing, is not inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.option.workers and not session.config.option.collectonly:
        forked.server()     # one for all workers, which imports while tests are read


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    # Those of most tests first: they keep the cores busy, and what is begun last ends soon.
    short = iter(sorted(files.keys() - set(LONGEST), key=lambda name: (-len(files[name]), name)))
    order = [name for longest in LONGEST if longest in files for name in (longest, *islice(short, _BETWEEN))]
    items[:] = [item for name in (*order, *short) for item in files[name]]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    # a twelfth of the tests' CPU; what garbage holds open is closed within seconds still
    gc.set_threshold(50_000, 5, 5)


@pytest.fixture(scope="session")
def plain_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One sshd for all tests that only need to log in somewhere."""
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    with sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def needs_fuse() -> None:
    """For tests with a file system that never answers."""
    missing = fuse.available()
    require(missing is None, str(missing))
