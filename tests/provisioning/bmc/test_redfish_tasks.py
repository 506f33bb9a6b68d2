"""What a controller goes on doing after it has answered: tasks and jobs are followed to their end, and one
that outlives our time is neither lost nor done twice.

Shapes: DMTF DSP0266 (asynchronous operations) and DSP2046 (Task, Job); Dell's jobs as in listings of iDRAC 9
that users have published (JobState Scheduled, JCP001; PR30).
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.values import UNSUPPORTED
from inventory.text import clean
from inventory.transport.httponce import HttpAnswer
from provisioning.bmc import page
from provisioning.bmc.base import BmcError, BmcErrorReason, BootTarget, ChangeEnd, EarlierChange, PowerAction
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.redfish.controller import RedfishController
from provisioning.bmc.redfish.pending import FOLDER, HeldTask, PendingTask, PendingTasks
from provisioning.bmc.redfish.task import TaskEnd, looked, monitor, reading
from provisioning.bmc.redfish.wire import RedfishEndpoint
from provisioning.bringup.engine.model import StepState
from provisioning.bringup.policy.load import load
from provisioning.bringup.steps.bios import BiosAsDesired, digest_of
from provisioning.bringup.steps.bmc import BmcReachable
from provisioning.bringup.steps.bmcstep import after_earlier, learned
from tests.provisioning.bmc.redfishdocs import NOW, Papers, tree
from tests.provisioning.bmc.test_redfish_vendors import bios
from tests.provisioning.bringup.controllers import POLICY, Scripted, machine, past, site, sku_of

MONITOR = "/redfish/v1/TaskService/TaskMonitors/7"
SYSTEM = {"PowerState": "On", "Actions": {"#ComputerSystem.Reset": {
    "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
    "ResetType@Redfish.AllowableValues": ["On", "ForceOff"]}}}
RUNNING = {"@odata.type": "#Task.v1_7_0.Task", "TaskState": "Running", "TaskStatus": "OK",
           "PercentComplete": 40}


def task(state: str, status: str = "OK", *messages: str) -> dict[str, Any]:
    return {"@odata.type": "#Task.v1_7_0.Task", "@odata.id": "/redfish/v1/TaskService/Tasks/7",
            "TaskState": state,
            "TaskStatus": status, "Messages": [{"Message": one} for one in messages]}


def answer(status: int, body: Any = None, **headers: str) -> HttpAnswer:
    return HttpAnswer(status, {name.replace("_", "-"): value for name, value in headers.items()},
                           json.dumps(body).encode() if body is not None else b"")


class Tasking(Papers):
    """Answers changes with `first`, and its task monitor with each of `later`, the last for ever."""

    def __init__(self, documents: Mapping[str, Any], first: HttpAnswer, *later: Any) -> None:
        super().__init__({key.rstrip("/"): value for key, value in documents.items()}.get)
        self.first, self.later = first, list(later)
        self.changed: list[tuple[str, str]] = []
        self.slept: list[float] = []

    def ask(self, method: str, path: str, *rest: Any) -> HttpAnswer:
        if method in ("POST", "PATCH") and "/Sessions" not in path:
            self.changed.append((method, path))
            return self.first
        if "/TaskService/" in path or "/Jobs/" in path:
            found = self.later.pop(0) if len(self.later) > 1 else self.later[0]
            if isinstance(found, BaseException):
                raise found
            return found        # type: ignore[no-any-return]
        return super().ask(method, path, *rest)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., RedfishController]:
    def make(papers: Tasking, seconds: float = 30.0, node: str = "gpu001") -> RedfishController:
        found = RedfishController(RedfishEndpoint(node, "127.0.0.1", 443, "pin", "0" * 64),
                                  lambda: ("root", Hidden("pw")), seconds, lambda: NOW, folder=tmp_path)
        found.session._wire = papers  # type: ignore[assignment]
        found.session._sleep = papers.slept.append
        return found
    return make


Opened = Callable[..., RedfishController]
ACCEPTED = answer(202, location=MONITOR, retry_after="3")


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / FOLDER).glob("*")) if (tmp_path / FOLDER).exists() else []


def test_an_accepted_action_is_followed_to_its_end_at_the_pace_that_the_service_wants(
    opened: Opened, tmp_path: Path,
) -> None:
    papers = Tasking(tree(system=SYSTEM), ACCEPTED, answer(202, RUNNING, retry_after="5"), answer(204))
    assert opened(papers).set_power(PowerAction.OFF) == "done"
    assert papers.slept == [3.0, 5.0]
    assert len(papers.changed) == 1 and not kept(tmp_path)


@pytest.mark.parametrize(("end", "said"), [
    (answer(200, task("Exception", "Critical", "The supply did not answer.")),
     "Exception; The supply did not answer."),
    (answer(200, task("Killed")), "Killed"), (answer(200, task("Cancelled")), "Cancelled"),
    (answer(200, task("Completed", "Critical", "Half of it.")), "Completed; Half of it."),
    (answer(400, {"error": {"message": "No such supply."}}), "400: No such supply."),
    (answer(200, {"JobState": "Failed", "Message": "Unable to start."}), "Failed; Unable to start."),
    (answer(200, {"JobState": "CompletedWithErrors", "Message": "x"}), "CompletedWithErrors; x")])
def test_what_was_accepted_and_failed_is_refused_with_the_tasks_own_words(
    opened: Opened, tmp_path: Path, end: HttpAnswer, said: str,
) -> None:
    papers = Tasking(tree(system=SYSTEM), ACCEPTED, answer(202, RUNNING), end)
    with pytest.raises(BmcError) as caught:
        opened(papers).set_power(PowerAction.OFF)
    assert (caught.value.wrong, caught.value.done) == (BmcErrorReason.REFUSED, False)
    assert said in caught.value.message and "power off" in caught.value.message
    assert not kept(tmp_path)


@pytest.mark.parametrize("end", [answer(200, task("Completed")),
                                 answer(200, task("Completed", "Warning", "Slowly.")),
                                 answer(200, {"PowerState": "Off"}), answer(204)])
def test_what_was_accepted_and_made_is_made(opened: Opened, end: HttpAnswer) -> None:
    papers = Tasking(tree(system=SYSTEM), ACCEPTED, end)
    opened(papers).set_power(PowerAction.OFF)
    assert len(papers.changed) == 1


def test_a_task_in_the_body_is_followed_where_no_location_is_given(opened: Opened) -> None:
    path = "/redfish/v1/TaskService/Tasks/7"
    for first in (answer(202, task("New")), answer(200, {**task("Running"), "TaskMonitor": MONITOR})):
        papers = Tasking(tree(system=SYSTEM), first, answer(200, task("Exception", "Critical", "No.")))
        with pytest.raises(BmcError, match="its task failed"):
            opened(papers).set_power(PowerAction.OFF)
    assert monitor(answer(202, task("New"))) == path
    assert monitor(answer(202, {}, location=f"https://10.0.0.9{MONITOR}")) == MONITOR
    assert monitor(answer(202, {}, location="https://evil.example/x")) is None
    assert monitor(answer(201, {}, location=MONITOR)) is None


def test_an_answer_without_a_task_is_not_followed(opened: Opened) -> None:
    for first in (answer(204), answer(200, {"PowerState": "Off"}), answer(202), answer(200, [1])):
        papers = Tasking(tree(system=SYSTEM), first, answer(500))
        assert opened(papers).set_power(PowerAction.OFF) == ""


def test_a_task_that_outlives_our_time_is_unknown_and_the_next_look_follows_it(
    opened: Opened, tmp_path: Path,
) -> None:
    slow = answer(202, RUNNING, retry_after="3600")
    papers = Tasking(tree(system=SYSTEM), ACCEPTED, slow)
    with pytest.raises(BmcError) as caught:
        opened(papers).set_power(PowerAction.OFF)
    assert (caught.value.wrong, caught.value.done) == (BmcErrorReason.TIMEOUT, None)
    assert MONITOR in caught.value.message and "40%" in caught.value.message
    assert len(kept(tmp_path)) == 1

    # another process, later
    again = opened(papers)
    assert again.earlier() == (EarlierChange("power off", ChangeEnd.RUNNING, "Running, 40%"),)
    with pytest.raises(BmcError) as busy:
        again.set_power(PowerAction.OFF)
    assert (busy.value.wrong, busy.value.done) == (BmcErrorReason.BUSY, False)
    assert len(papers.changed) == 1
    papers.later = [answer(200, task("Completed"))]
    assert [one.end for one in opened(papers).earlier()] == [ChangeEnd.DONE]
    assert not kept(tmp_path) and opened(papers).earlier() == ()


@pytest.mark.parametrize(("end", "left"), [
    (BmcError(BmcErrorReason.UNREACHABLE, "it restarts"), 1), (BmcError(BmcErrorReason.BROKEN, "no HTTP"), 1),
    *((answer(status, {"error": {"message": "gone"}}), 0) for status in (404, 410, 500))])
def test_of_one_that_falls_silent_it_is_not_known_how_it_ended_and_where_it_may_tell_later_the_task_is_kept(
    opened: Opened, tmp_path: Path, end: HttpAnswer | BmcError, left: int,
) -> None:
    papers = Tasking(tree(system=SYSTEM), ACCEPTED, end)
    with pytest.raises(BmcError) as caught:
        opened(papers).set_power(PowerAction.OFF)
    assert caught.value.done is None and len(kept(tmp_path)) == left


def test_a_busy_task_service_is_asked_again(opened: Opened) -> None:
    papers = Tasking(tree(system=SYSTEM), ACCEPTED, answer(503, {}, retry_after="2"), answer(204))
    assert opened(papers).set_power(PowerAction.OFF) == "done"


def test_a_kill_while_a_task_is_followed_loses_nothing(opened: Opened, tmp_path: Path) -> None:
    papers = Tasking(tree(system=SYSTEM), ACCEPTED, answer(202, RUNNING))
    child = os.fork()
    if child == 0:
        found = opened(papers)
        found.session._sleep = lambda seconds: os.kill(os.getpid(), signal.SIGKILL)
        found.set_power(PowerAction.OFF)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    papers.later = [answer(204)]
    assert opened(papers, node="gpu002").earlier() == ()       # another node's
    assert [(one.what, one.end) for one in opened(papers).earlier()] == [("power off", ChangeEnd.DONE)]


def test_a_task_that_another_process_follows_is_under_way(tmp_path: Path) -> None:
    first, other = PendingTasks(tmp_path, "gpu001"), PendingTasks(tmp_path, "gpu001")
    with first.keeping(PendingTask(MONITOR, "power off")):
        (found,) = other.left()
        assert isinstance(found, PendingTask) and found.what == "power off"
    assert list(other.left()) == []


def test_a_file_that_was_not_written_to_its_end_or_is_a_day_old_holds_no_machine(tmp_path: Path) -> None:
    tasks = PendingTasks(tmp_path, "gpu001")
    with tasks.keeping(PendingTask(MONITOR, "x")) as held:
        held.stays()
    (path,) = kept(tmp_path)
    for text in ("", "{", '{"path": "/etc/passwd", "what": "x", "began": 9e9, "at_reset": false}',
                 json.dumps({"path": MONITOR, "what": "x", "began": 5.0, "at_reset": False})):
        path.write_text(text)
        assert not [one for one in tasks.left() if isinstance(one, HeldTask)]
        assert not path.exists()


# Jobs that wait for a reset.

JOB = "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs/JID_1"
SCHEDULED = {"@odata.type": "#DellJob.v1_4_0.DellJob", "Id": "JID_1", "JobState": "Scheduled",
             "JobType": "BIOSConfiguration", "Message": "Task successfully scheduled.",
             "MessageId": "IDRAC.2.8.JCP001",
             "PercentComplete": 0}
NEW = {**SCHEDULED, "JobState": "New", "Message": "New", "MessageId": "JCP000"}


def test_a_bios_job_that_waits_for_the_reset_is_as_far_as_a_write_comes(opened: Opened,
                                                                        tmp_path: Path) -> None:
    papers = Tasking(bios("Dell", "Settings", SupportedApplyTimes=["OnReset"]), answer(202, location=JOB),
                     answer(200, NEW), answer(200, SCHEDULED))
    assert opened(papers).set_bios({"Cores": 4}) == "Scheduled; Task successfully scheduled."
    # It is asked about until it has run, and is in no one's way: the reset is the next thing to do.
    later = opened(papers)
    assert [one.end for one in later.earlier()] == [ChangeEnd.RESET]
    papers.first = answer(204)
    later.set_boot(BootTarget.PXE, True)
    papers.later = [answer(200, {**SCHEDULED, "JobState": "Failed", "Message": "BIOS is locked."})]
    assert [(one.end, one.message) for one in opened(papers).earlier()] == [
        (ChangeEnd.FAILED, "Failed; BIOS is locked.")]
    assert not kept(tmp_path)


def test_a_job_that_can_never_start_is_refused_though_it_calls_itself_scheduled(opened: Opened) -> None:
    papers = Tasking(bios("Dell", "Settings"), answer(202, location=JOB), answer(200, {
        **SCHEDULED, "Message": "Job processing initialization failure.", "MessageId": "PR30"}))
    with pytest.raises(BmcError, match="initialization failure") as caught:
        opened(papers).set_bios({"Cores": 4})
    assert caught.value.done is False


def test_a_power_change_that_is_scheduled_is_not_done(opened: Opened) -> None:
    papers = Tasking(tree(system=SYSTEM), ACCEPTED, answer(200, SCHEDULED, retry_after="600"))
    with pytest.raises(BmcError) as caught:
        opened(papers).set_power(PowerAction.OFF)
    assert caught.value.done is None


@pytest.mark.parametrize(("state", "end"), [
    *((one, TaskEnd.RUNNING) for one in ("New", "Starting", "Running", "Suspended", "Interrupted", "Stopping",
                                         "Service", "Cancelling", "UserIntervention", "Continue",
                                         "Validating")),
    ("Pending", TaskEnd.RESET), ("Completed", TaskEnd.DONE), ("Killed", TaskEnd.FAILED),
    ("Exception", TaskEnd.FAILED), ("Cancelled", TaskEnd.FAILED), ("Invalid", TaskEnd.FAILED),
    ("Wobbling", TaskEnd.UNKNOWN)])
def test_each_state_of_the_schemas_has_its_meaning(state: str, end: TaskEnd) -> None:
    for key in ("TaskState", "JobState"):
        found = reading({key: state})
        assert found is not None and found.end is end


def test_what_is_no_task_is_none() -> None:
    assert reading({"PowerState": "On"}) is None and reading({"TaskState": 7.5e300}) is not None


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
                     lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                         st.sampled_from(["TaskState", "JobState", "Messages", "Message", "MessageId",
                                          "Oem", "Dell",
                                          "TaskStatus", "PercentComplete", "@odata.id", "TaskMonitor"]),
                         inner,
                         max_size=4), max_leaves=12)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)      # the machine may be busy
@given(status=st.sampled_from([200, 202, 204, 400, 404, 410, 500]), body=_JSON)
def test_whatever_a_task_monitor_says_one_short_line_comes_of_it(status: int, body: Any) -> None:
    found = looked(answer(status, body))
    assert len(found.summary) <= 300 and clean(found.summary, 300) == found.summary
    monitor(answer(status, body))


def test_a_change_that_is_under_way_is_shown_beside_the_machine() -> None:
    lines = list(page.changes((EarlierChange("power off", ChangeEnd.RUNNING, "Running, 40%"),)))
    assert lines == ["earlier change, power off: running: Running, 40%"]
    assert list(page.changes(BmcError(BmcErrorReason.TIMEOUT, "slow"))) == ["? an earlier change: slow"]


# What bring-up makes of it.

def left(end: ChangeEnd, what: str = "power off", said: str = "Running, 40%") -> tuple[EarlierChange, ...]:
    return (EarlierChange(what, end, said),)


def step_of(tmp_path: Path, controller: Scripted) -> BiosAsDesired:
    own = site(tmp_path / "rules", "bios:\n- {id: own, settings: {Cores: 4}, source: here}\n")
    policy = load([packaged(), own])
    return BiosAsDesired(policy.steps["bios"], controller, policy, sku_of)


def seen_by(step: BiosAsDesired, **of: Any) -> Any:
    (_, found), = step.observe([machine(**of)])
    return found


WRITE = "write:" + digest_of({"Cores": 4})


def test_while_a_change_is_under_way_the_step_waits_and_names_no_operation(tmp_path: Path) -> None:
    controller = Scripted(settings={"Cores": 0}, left=left(ChangeEnd.RUNNING, "BIOS settings"))
    found = seen_by(step_of(tmp_path, controller), operations=(past(WRITE, None),))
    assert (found.stand, found.operation, found.learned) == (StepState.WAIT, None, {})
    assert "still works on BIOS settings: Running, 40%" in found.message
    assert "does not come to an end" in found.troubles[0].what


def test_a_change_that_failed_later_is_for_people_and_is_known_not_to_be_done(tmp_path: Path) -> None:
    controller = Scripted(settings={"Cores": 0},
                          left=left(ChangeEnd.FAILED, "BIOS settings", "Exception; locked"))
    found = seen_by(step_of(tmp_path, controller), operations=(past(WRITE, None),))
    assert found.stand is StepState.TROUBLE and "locked" in found.message
    assert found.learned[WRITE].done is False


def test_a_write_of_which_only_its_job_told_is_followed_by_the_reset_and_not_written_again(
        tmp_path: Path) -> None:
    controller = Scripted(settings={"Cores": 0}, pending=UNSUPPORTED,
                          left=left(ChangeEnd.RESET, "BIOS settings"))
    found = seen_by(step_of(tmp_path, controller), operations=(past(WRITE, None),))
    assert found.operation is not None and found.operation.key.startswith("off:bios:")
    assert found.learned[WRITE].done is True


def test_the_end_of_a_task_is_that_of_the_operation_that_it_was_and_of_no_other() -> None:
    on, off = past("on:bios:x", None, at=2.0), past("off:bios:x", None, at=1.0)
    assert set(learned(machine(operations=(off, on)), left(ChangeEnd.DONE))) == {"off:bios:x"}
    assert learned(machine(operations=(past("off:x", True),)), left(ChangeEnd.FAILED)) == {}
    assert learned(machine(operations=(off,)), left(ChangeEnd.UNKNOWN)) == {}
    assert after_earlier(machine(), left(ChangeEnd.UNKNOWN)) is None


def test_the_step_that_asks_as_a_stranger_logs_in_for_no_task() -> None:
    controller = Scripted(fails={"earlier": BmcError(BmcErrorReason.CREDENTIALS, "no")})
    (_, found), = BmcReachable(POLICY.steps["bmc"], controller).observe([machine()])
    assert found.stand is StepState.SO


def test_a_task_that_is_being_written_down_is_not_lost_to_another_process_that_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, others, seen = PendingTasks(tmp_path, "gpu001"), PendingTasks(tmp_path, "gpu001"), []

    def looked(descriptor: int, how: int) -> None:
        if not seen:
            seen.append(list(others.left()))
        lock(descriptor, how)

    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", looked)
    with ours.keeping(PendingTask("/redfish/v1/TaskService/Tasks/1", "power on")) as held:
        held.stays()
    assert seen == [[]]
    assert [one.task.what for one in others.left() if isinstance(one, HeldTask)] == ["power on"]
