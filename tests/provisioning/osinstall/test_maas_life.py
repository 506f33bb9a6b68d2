"""The MAAS back end against a stand-in of MAAS (tests/testbed/maas.py): a machine's life, each status, and
what comes in between."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inventory.model import Node, Secret, SecretFrom
from provisioning.bmc.base import BootTarget
from provisioning.osinstall.base import OsBackend, OsError, OsState
from provisioning.osinstall.maas.backend import maas_backend
from provisioning.osinstall.maas.options import MaasOptions
from provisioning.osinstall.maas.statuses import LABELS, MaasOperation, MaasStatus, next_step
from tests.provisioning.osinstall.maassite import NODE, Site
from tests.testbed import maas

ROOT = Path(__file__).resolve().parents[3]


def test_a_new_machine_is_commissioned_then_deployed_and_reported_with_its_image(site: Site) -> None:
    user_data = site.folder / "user-data"
    user_data.write_text("#cloud-config\nhostname: gpu001\n")
    backend: OsBackend = site.backend(user_data=user_data, hwe_kernel="ga-22.04", tags=("gpu",))
    assert (backend.name, backend.target, backend.drives_power) == ("maas", BootTarget.NONE, True)
    site.machine(maas.NEW)
    assert backend.state(NODE).state is OsState.PLANNED
    assert backend.changes(NODE) == (
        f"MAAS ({site.bed.url.removesuffix('/MAAS')}) commissions gpu001 (abc123): boots it, reads its "
        f"hardware and tests it; deploying it is "
        "asked for after that",)
    backend.install(NODE)
    assert backend.state(NODE).state is OsState.INSTALLING and "commissioning" in backend.state(NODE).message
    site.bed.advance("abc123")
    assert backend.state(NODE).state is OsState.PLANNED
    lines = backend.changes(NODE)
    assert ("allocates and deploys gpu001 (abc123): ubuntu/jammy" in lines[0]
            and "the disk of its system is written anew" in lines)
    backend.install(NODE)
    assert backend.state(NODE).state is OsState.INSTALLING
    site.bed.advance("abc123")
    found = backend.state(NODE)
    assert (found.state, found.image, found.host_keys, found.advice) == (OsState.INSTALLED,
                                                                         "ubuntu/jammy", (), "")
    assert found.message == "gpu001 (abc123): deployed, ubuntu/jammy, owner muster"
    assert backend.changes(NODE) == ()
    assert site.asked() == ["commission", "allocate", "set_workload_annotations", "update_nodes", "deploy"]
    (name, fields), = site.bed.deployed
    assert (name == "abc123" and fields["distro_series"] == "ubuntu/jammy"
            and fields["hwe_kernel"] == "ga-22.04")
    assert base64.b64decode(fields["user_data"]) == user_data.read_bytes()
    assert (site.bed.machines["abc123"]["workload_annotations"] == {"muster": "gpu001"}
            and site.backend().tags(NODE) == ("gpu",))


@pytest.mark.parametrize("status", [maas.COMMISSIONING, maas.TESTING, maas.DEPLOYING, maas.RELEASING, 14])
def test_a_machine_on_its_way_is_asked_for_nothing(site: Site, status: int) -> None:
    site.machine(status, owner="muster")
    backend = site.backend()
    assert backend.state(NODE).state is OsState.INSTALLING
    backend.install(NODE)
    assert site.asked() == [] and backend.changes(NODE) == ()


@pytest.mark.parametrize("status", list(MaasStatus))
def test_each_status_is_reported_in_maas_word_and_leads_on_or_says_in_one_line_why_it_does_not(
    site: Site, status: MaasStatus,
) -> None:
    site.machine(status.value, owner="muster")
    backend = site.backend()
    found = backend.state(NODE)
    assert maas.NAMES[status.value].lower() == LABELS[status] and f": {LABELS[status]}" in found.message
    expected = {OsState.FAILED: "FAILED BROKEN RETIRED", OsState.PLANNED: "NEW READY RESERVED ALLOCATED",
                OsState.UNKNOWN: "MISSING RESCUE"}
    for state, names in expected.items():
        if any(name in status.name for name in names.split()) and not (state is OsState.UNKNOWN
                                                                       and "FAILED" in status.name):
            assert found.state is state
    assert found.advice or found.state is not OsState.FAILED
    assert found.state is not OsState.INSTALLED     # the deployed one has no image that it could be
    one = backend.found(NODE)
    assert one is not None
    step = next_step(one, site.options(), "muster", "gpu001")
    if step.refused:
        with pytest.raises(OsError) as caught:
            backend.install(NODE)
        assert str(caught.value) == step.refused and "\n" not in step.refused and site.asked() == []
        with pytest.raises(OsError):
            backend.changes(NODE)
        return
    # What MAAS allows from there, by its own rules in the stand-in.
    backend.install(NODE)
    assert (site.asked() == []) is (step.operation is MaasOperation.NOTHING)


def test_a_number_that_muster_does_not_know_and_a_word_of_another_status_prove_nothing(site: Site) -> None:
    site.machine(23, status_name="Quarantined")
    assert (site.backend().state(NODE).state is OsState.UNKNOWN
            and "23, Quarantined" in site.backend().state(NODE).message)
    site.bed.put("abc123", maas.DEPLOYED, status_name="Failed deployment", osystem="ubuntu",
                 distro_series="jammy")
    assert site.backend().state(NODE).state is OsState.UNKNOWN
    with pytest.raises(OsError, match="which muster does not know"):
        site.backend().install(NODE)


@pytest.mark.parametrize(("work", "failed", "word"), [
    ("commission", "failed commissioning", "commissioned anew"),
    ("deploy", "failed deployment", "machine release abc123"),
    ("test", "failed testing", "override-failed-testing abc123"),
])
def test_work_that_fails_is_reported_with_maas_message_and_what_to_do(site: Site, work: str, failed: str,
                                                                      word: str) -> None:
    site.machine({"commission": maas.NEW, "deploy": maas.READY, "test": maas.READY}[work])
    backend = site.backend(tested=work == "test")
    backend.install(NODE)
    site.bed.advance("abc123", ok=False,
                     message="Node changed status - it\x1b[31m timed out\nafter 40 minutes")
    found = backend.state(NODE)
    assert found.state is OsState.FAILED and failed in found.message and word in found.advice
    assert "\\x1b[31m timed out\\nafter" in found.message and "\x1b" not in found.message


def test_a_failed_deployment_of_musters_own_is_released_and_deployed_again_when_it_is_asked_for_again(
        site: Site) -> None:
    site.machine(maas.READY)
    backend = site.backend()
    backend.install(NODE)
    site.bed.advance("abc123", ok=False)
    backend.install(NODE)
    site.bed.advance("abc123")
    assert backend.state(NODE).state is OsState.PLANNED
    backend.install(NODE)
    site.bed.advance("abc123")
    assert (backend.state(NODE).state is OsState.INSTALLED and site.asked().count("deploy") == 2
            and site.asked().count("release") == 1)


def test_a_failed_deployment_of_someone_else_is_left_as_it_is(site: Site) -> None:
    site.machine(maas.FAILED_DEPLOYMENT, owner="muster")
    with pytest.raises(OsError, match="was not muster's for gpu001"):
        site.backend().install(NODE)
    site.bed.put("abc123", maas.FAILED_DEPLOYMENT, owner="alice", workload_annotations={"muster": "gpu001"})
    with pytest.raises(OsError, match="belongs to alice in MAAS, not to muster"):
        site.backend().install(NODE)
    assert site.asked() == []


@pytest.mark.parametrize(("image", "state", "said"), [
    (("ubuntu", "noble"), OsState.FAILED, "it has ubuntu/noble, ubuntu/jammy is asked for"),
    (("custom", "jammy"), OsState.FAILED, "it has custom/jammy"),
    (("", ""), OsState.UNKNOWN, "does not say with which image"),
])
def test_another_image_is_a_failure_with_advice_and_is_never_deployed_over(site: Site, image: tuple[str, str],
                                                                           state: OsState, said: str) -> None:
    site.machine(maas.DEPLOYED, owner="muster", osystem=image[0], distro_series=image[1],
                 workload_annotations={"muster": "gpu001"})
    backend = site.backend()
    found = backend.state(NODE)
    assert (found.state is state and said in found.message
            and "maas PROFILE machine release abc123" in found.advice)
    with pytest.raises(OsError, match="is deployed"):
        backend.install(NODE)
    assert site.asked() == []
    assert site.backend(osystem="", distro_series="").state(NODE).state is OsState.INSTALLED


def test_a_deployed_machine_under_test_is_not_called_installed_and_is_not_tested_again(site: Site) -> None:
    site.machine(maas.TESTING, owner="muster", osystem="ubuntu", distro_series="jammy")
    assert site.backend().state(NODE).state is OsState.UNKNOWN
    site.bed.put("abc123", maas.FAILED_TESTING)
    with pytest.raises(OsError, match="was deployed"):
        site.backend().install(NODE)
    assert site.asked() == []


def test_where_tests_are_wanted_a_machine_without_results_is_tested_before_it_is_deployed(site: Site) -> None:
    site.machine(maas.READY)
    backend = site.backend(tested=True, testing_scripts=("memtester", "smartctl-validate"))
    backend.install(NODE)
    assert site.asked() == ["test"]
    site.bed.advance("abc123")
    backend.install(NODE)
    assert site.asked()[-1] == "deploy"
    site.bed.put("abc123", maas.READY, owner=None, testing_status=6, testing_status_name="Degraded")
    with pytest.raises(OsError, match="its tests ended as Degraded"):
        backend.install(NODE)


def test_a_locked_machine_is_not_touched(site: Site) -> None:
    site.machine(maas.READY, locked=True)
    assert "locked" in site.backend().state(NODE).message
    with pytest.raises(OsError, match="machine unlock abc123"):
        site.backend().install(NODE)
    site.bed.put("abc123", maas.DEPLOYED, owner="muster", workload_annotations={"muster": "gpu001"})
    with pytest.raises(OsError, match="is locked"):
        site.backend().release(NODE, typed="gpu001")
    assert site.asked() == []


def test_only_what_muster_deployed_is_released_unless_the_name_was_typed(site: Site) -> None:
    site.machine(maas.DEPLOYED, owner="alice", osystem="ubuntu", distro_series="jammy")
    backend = site.backend()
    for typed in ("", "gpu002"):
        with pytest.raises(OsError,
                           match="deployed for alice and was not deployed by muster as gpu001; "
                                 "nothing changed"):
            backend.release(NODE, typed)
    site.bed.put("abc123", maas.DEPLOYED, owner="muster")       # by hand, with the same account
    with pytest.raises(OsError, match="nothing changed"):
        backend.release(NODE)
    assert site.asked() == []
    assert backend.release(NODE, typed="gpu001") and site.asked() == ["release"]
    assert not backend.release(NODE) and site.asked() == ["release"]
    site.bed.advance("abc123")
    backend.install(NODE)
    site.bed.advance("abc123")
    assert backend.release(NODE)
    site.bed.put("abc123", maas.NEW)
    with pytest.raises(OsError, match="from which MAAS releases nothing"):
        backend.release(NODE, "gpu001")


def test_a_machine_that_maas_does_not_have_is_planned_and_cannot_be_installed(site: Site) -> None:
    backend = site.backend()
    found = backend.state(NODE)
    assert (found.state is OsState.PLANNED
            and "serial number SN0001, controller at 10.2.0.1, host name gpu001" in found.message)
    assert "enlists it" in found.advice
    for asked in (backend.install, backend.changes, backend.release, backend.tags):
        with pytest.raises(OsError, match="MAAS has no machine with serial number SN0001"):
            asked(NODE)


def test_an_image_that_maas_does_not_have_is_refused_in_its_own_words(site: Site) -> None:
    site.machine(maas.READY)
    with pytest.raises(OsError,
                       match="does not accept it \\(400\\): distro_series: 'ubuntu/warty' is not a valid "
                             "distro_series"):
        site.backend(distro_series="warty").install(NODE)
    assert site.asked().count("deploy") == 1


def failing(*answers: Any, op: str) -> Any:
    """Answers so each in turn, and then as it should."""
    left = list(answers)
    return lambda method, path, asked: left.pop(0) if asked == op and left else None


@pytest.mark.parametrize("answers", [
    (503, 503, 503), (429,), ("drop",), ("drop after",), (409,),
    *(pytest.param(answers, marks=pytest.mark.slow) for answers in ((503,), (500,), (504, 502)))])
@pytest.mark.parametrize("op", ["allocate", "set_workload_annotations", "deploy"])
def test_whatever_fails_once_on_the_way_is_tried_again_and_nothing_is_doubled(
        site: Site, op: str, answers: tuple[Any, ...]) -> None:
    site.machine(maas.READY)
    site.bed.retry_after = "3"
    site.bed.faults = failing(*answers, op=op)
    site.backend().install(NODE)
    assert len(site.bed.deployed) == 1 and site.bed.machines["abc123"]["status"] == maas.DEPLOYING
    assert site.bed.machines["abc123"]["workload_annotations"] == {"muster": "gpu001"}
    if answers[0] in (503, 429):
        assert site.paused and min(site.paused) >= 3      # as the server asked


@pytest.mark.parametrize(("answer", "said"),
                         [(503, "is not available \\(503\\)"), (409, "state does not allow it \\(409\\)"),
                          (403, "may not \\(403\\)")])
def test_what_goes_on_failing_is_an_error_after_few_tries(site: Site, answer: int, said: str) -> None:
    site.machine(maas.READY)
    site.bed.faults = lambda method, path, op: answer if op == "deploy" else None
    with pytest.raises(OsError, match=said):
        site.backend().install(NODE)
    assert site.asked().count("deploy") <= 6 and site.bed.deployed == []


def test_a_longer_wait_than_there_is_time_for_is_not_waited_for(site: Site) -> None:
    site.machine(maas.READY)
    site.bed.retry_after = "600"
    site.bed.faults = lambda method, path, op: 503 if method == "GET" else None
    with pytest.raises(OsError, match="503"):
        site.backend().state(NODE)
    assert site.paused == []


def test_whoever_was_faster_is_left_alone(site: Site) -> None:
    site.machine(maas.READY)

    def taken(method: str, path: str, op: str) -> None:
        if op == "allocate":
            site.bed.put("abc123", maas.ALLOCATED, owner="alice")
    site.bed.faults = taken
    with pytest.raises(OsError, match="belongs to alice"):
        site.backend().install(NODE)
    assert site.bed.machines["abc123"]["owner"] == "alice" and site.bed.deployed == []


INSTALL = """
import sys
from tests.provisioning.osinstall.maassite import NODE
from provisioning.osinstall.maas.backend import maas_backend
from provisioning.osinstall.maas.options import MaasOptions
from inventory.model import Secret, SecretFrom
url, key, tls = sys.argv[1:]
maas_backend(MaasOptions(url, Secret(SecretFrom.FILE, (key,)), "ubuntu", "jammy", tls=tls, tags=("gpu",))).install(NODE)
"""  # noqa: E501


def started(site: Site) -> subprocess.Popen[str]:
    key = site.options().key.words[0]
    return subprocess.Popen([sys.executable, "-c", INSTALL, site.bed.url, key, str(site.bed.authority)],
                            cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


# In the fast tier while it reads what it has allocated, and while it deploys.
@pytest.mark.parametrize("at", [
    pytest.param(at, marks=[] if at in (6, 9) else [pytest.mark.slow]) for at in range(1, 10)])
def test_killed_while_any_request_is_at_maas_the_same_call_finishes_and_deploys_once(site: Site,
                                                                                     at: int) -> None:
    site.machine(maas.READY)
    worker: list[subprocess.Popen[str]] = []
    count = 0

    def kills(method: str, path: str, op: str) -> None:
        nonlocal count
        count += 1
        if count == at and worker:
            worker[0].send_signal(signal.SIGKILL)
            worker[0].wait(20)
    with site.bed.lock:     # no request is answered before the process is known
        site.bed.faults = kills
        worker.append(started(site))
    output, _ = worker[0].communicate(timeout=60)
    assert worker[0].returncode == -signal.SIGKILL, f"ended before request {at}: {output}"
    site.bed.faults = lambda method, path, op: None
    site.backend(tags=("gpu",)).install(NODE)
    assert len(site.bed.deployed) == 1 and site.bed.machines["abc123"]["status"] == maas.DEPLOYING
    assert site.bed.machines["abc123"]["workload_annotations"] == {"muster": "gpu001"}
    assert site.bed.machines["abc123"]["tag_names"] == ["gpu"]


def test_what_a_site_cannot_mean_is_said_in_one_line(tmp_path: Path) -> None:
    file = Secret(SecretFrom.FILE, (str(tmp_path / "key"),))
    good: dict[str, Any] = {"url": "https://maas.example:5443/MAAS", "key": file}
    for wrong, said in (
        ({"key": Secret(SecretFrom.ENV, ("MAAS_KEY",))}, "not from the environment"),
        ({"url": "maas.example"}, "is no URL"),
        ({"url": "http://maas.example:5240/MAAS"}, "say cleartext: true"),
        ({"url": "https://a:b@maas.example/"}, "holds a user or a password"),
        ({"url": "https://maas.example:99999/"}, "is no URL"),
        ({"url": "https://maas\r\n.example/"}, "is no URL"),
        ({"distro_series": "22.04"}, "such as jammy"), ({"osystem": "ubuntu"}, "osystem needs distro_series"),
        ({"distro_series": "../x"}, "is no name"), ({"tags": ("a b",)}, "is no name"),
        ({"seconds": 0.0}, "above 0"),
    ):
        with pytest.raises(OsError, match=said) as caught:
            maas_backend(MaasOptions(**{**good, **wrong}))
        assert "\n" not in str(caught.value) and "a:b" not in str(caught.value)


def test_user_data_that_cannot_be_read_keeps_the_machine_as_it_is(site: Site) -> None:
    site.machine(maas.READY)
    with pytest.raises(OsError, match=r"user_data .* cannot be read: No such file"):
        site.backend(user_data=site.folder / "none").changes(NODE)
    big = site.folder / "big"
    with big.open("wb") as file:
        os.truncate(file.fileno(), 2 * 1024 * 1024)
    with pytest.raises(OsError, match="is over 1024 KiB"):
        site.backend(user_data=big).install(NODE)
    assert site.bed.deployed == []


def test_one_list_serves_many_nodes_and_a_known_node_is_read_alone(site: Site) -> None:
    nodes = [Node(f"n{number:03}", labels={"serial": f"S{number}"}) for number in range(20)]
    for number, node in enumerate(nodes):
        site.bed.enlist(f"id{number}", node.name, maas.Hardware(f"S{number}"), maas.READY)
    backend = site.backend()
    for _ in range(3):
        assert {backend.state(node).state for node in nodes} == {OsState.PLANNED}
    asked = [(path, op) for _, path, op in site.bed.seen]
    assert asked.count(("machines/", "")) == 1 and len(asked) == 2 + 60
