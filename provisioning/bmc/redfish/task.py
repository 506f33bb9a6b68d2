"""Follows what a service does after it has answered: a task behind a change, until it has ended or our time
has.

Sources. DMTF DSP0266, asynchronous operations: 202 with the task monitor in Location and perhaps Retry-After;
the monitor answers 202 until the end and then what the operation would have answered, once. DMTF DSP2046,
schemas Task (TaskState, TaskStatus) and Job (JobState). Dell: jobs of iDRAC (schema DellJob; a BIOS job is
`Scheduled`, message JCP001, until the next reset; failed jobs end as Failed, CompletedWithErrors,
RebootFailed).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from inventory.text import clean
from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.redfish.answers import Document, error_text, is_within, retry_after
from provisioning.bmc.redfish.pending import PendingTask, PendingTasks
from provisioning.bmc.redfish.read import inner, link, number, objects, word
from provisioning.bmc.redfish.session import Session

# Between two looks: never sooner, and where the service does not say not later.
_SOONEST_S, _LONGEST_S = 0.5, 8.0
_MOST_MESSAGES, _MOST_TEXT = 4, 160


class TaskEnd(Enum):
    """How far a task is."""

    RUNNING = "running"
    RESET = "waits for the machine's next reset"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"     # its end was reported to someone else, or is no longer


# TaskState of DSP2046, JobState of DSP2046 and of DellJob, by what they mean for who waits.
_DONE = {"Completed"}
_FAILED = {"Killed", "Exception", "Cancelled", "Failed", "CompletedWithErrors", "RebootFailed", "Invalid",
           "ScheduledWithErrors"}
# It does not go on by itself: someone at the controller has to.
_HELD = {"Suspended", "Interrupted", "UserIntervention"}
_RUNNING = {"New", "Starting", "Running", "Pending", "Stopping", "Service", "Cancelling", "Continue",
            "Validating", "Scheduled", "Scheduling", "Downloading", "Downloaded", "Waiting", "Paused",
            "ReadyForExecution", "PendingReboot", "RebootPending", "RebootCompleted", "WaitingForRetry"}
_AT_RESET = {"Scheduled", "Pending", "PendingReboot", "RebootPending"}
_SCHEDULED = re.compile(r"\bJCP001$")       # "Task successfully scheduled."
_NO_START = re.compile(r"\bPR30$")          # "Job processing initialization failure."


@dataclass(frozen=True)
class TaskReading:
    """What a task says of itself. `percent` is None where it does not say."""

    end: TaskEnd
    state: str
    messages: tuple[str, ...] = ()
    percent: int | None = None

    @property
    def summary(self) -> str:
        """All of it in one line."""
        what = self.state + (f", {self.percent}%" if self.percent is not None
                             and self.end is TaskEnd.RUNNING else "")
        return clean("; ".join(part for part in (what, *self.messages) if part), 300)


def reading(found: Document) -> TaskReading | None:
    """What a Task or Job says; None for a document that is neither."""
    state = word(found, "TaskState") or word(found, "JobState")
    if not state:
        return None
    dell = word(found, "Oem", "Dell", "JobState")
    status = word(found, "TaskStatus") or word(found, "JobStatus")
    messages = tuple(dict.fromkeys(_messages(found)))
    percent = number(found, "PercentComplete")
    ids = [word(one, "MessageId")
           for one in (found, inner(found, "Oem", "Dell"), *objects(found, "Messages"))]
    end = _end(state, dell, status, ids)
    return TaskReading(end, clean(dell or state, 40), messages[-_MOST_MESSAGES:],
                       min(percent, 100) if isinstance(percent, int) else None)


def _end(state: str, dell: str, status: str, ids: list[str]) -> TaskEnd:
    states = {state, dell} - {""}
    if states & _FAILED or any(_NO_START.search(one) for one in ids):
        return TaskEnd.FAILED
    if state in _DONE:
        return TaskEnd.FAILED if status == "Critical" else TaskEnd.DONE
    if states & _AT_RESET or any(_SCHEDULED.search(one) for one in ids):
        return TaskEnd.RESET
    return TaskEnd.RUNNING if states <= _RUNNING | _HELD else TaskEnd.UNKNOWN


def _messages(found: Document) -> Iterator[str]:
    for one in (*objects(found, "Messages"), found, inner(found, "Oem", "Dell")):
        if isinstance(text := inner(one, "Message"), str) and text.strip():
            yield clean(text.strip(), _MOST_TEXT)


def monitor(answer: HttpAnswer) -> str | None:
    """Where the task behind an accepted change is looked at; None where the change was made at once."""
    location = re.sub(r"^https?://[^/]*", "", answer.headers.get("location", ""))
    if answer.status == 202 and is_within(location):
        return location
    found = _document(answer)
    if found is None or reading(found) is None:
        return None
    for path in (inner(found, "TaskMonitor"), link({"": found}, "")):
        if isinstance(path, str) and is_within(path):
            return path
    return None


def _document(answer: HttpAnswer) -> Document | None:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def looked(answer: HttpAnswer) -> TaskReading:
    """What an answer of a task or its monitor says; a monitor ends with what the operation would answer."""
    found = _document(answer)
    task = reading(found) if found is not None else None
    if answer.status in (404, 410):
        return TaskReading(TaskEnd.UNKNOWN, "it no longer tells how it ended")
    if answer.status >= 500 or answer.status == 403:      # who may not look knows nothing of its end
        return TaskReading(TaskEnd.UNKNOWN, f"{answer.status}{error_text(answer)}")
    if answer.status >= 400:
        # Dell answers 400 for a failed job's task, with the task or with an error.
        messages = (task.summary,) if task is not None else ()
        return TaskReading(TaskEnd.FAILED, f"{answer.status}{error_text(answer)}", messages)
    if task is not None:
        return task
    return TaskReading(TaskEnd.RUNNING if answer.status == 202 else TaskEnd.DONE,
                       "running" if answer.status == 202 else "done")


def followed(session: Session, answer: HttpAnswer, what: str, tasks: PendingTasks, *,
             at_reset: bool = False) -> str:
    """Follows the task of an accepted change to its end, and gives what it said, "" without one. With
    `at_reset` one that waits for the next reset is at its end. Raises BmcError: REFUSED for a failed task;
    out of time, with `done` None, it stays in `tasks`, for a later call to follow."""
    path = monitor(answer)
    if path is None:
        return ""
    with tasks.keeping(PendingTask(path, what, at_reset)) as kept:
        task = _followed(session, path, answer, at_reset=at_reset)
        if task.end in (TaskEnd.RUNNING, TaskEnd.RESET):
            kept.stays()
    if task.end is TaskEnd.FAILED:
        raise BmcError(BmcErrorReason.REFUSED, f"{what}: its task failed: {task.summary}", False)
    if task.end is TaskEnd.UNKNOWN:
        raise BmcError(BmcErrorReason.BROKEN, f"{what}: of its task {path}: {task.summary}", None)
    if task.end is TaskEnd.RUNNING:
        raise BmcError(BmcErrorReason.TIMEOUT, f"{what} was accepted, and its task {path} is still on its "
                       f"way ({task.summary}); it is followed further", None)
    return task.summary


def _followed(session: Session, path: str, answer: HttpAnswer, *, at_reset: bool) -> TaskReading:
    """The last that was seen of it within the call's time; RUNNING where a look failed."""
    task = TaskReading(TaskEnd.RUNNING, "running")
    for tried in range(10_000):
        said = retry_after(answer)
        wait = min(_LONGEST_S, _SOONEST_S * 2**min(tried, 4)) if said is None else max(_SOONEST_S, said)
        if wait >= session.left:
            break
        session.pause(wait)
        try:
            answer = session.answer(path)
        except BmcError as problem:
            return TaskReading(TaskEnd.RUNNING, task.state, (problem.message,))
        if answer.status in (429, 503):
            continue
        task = looked(answer)
        if task.end is TaskEnd.RESET and not at_reset:
            task = TaskReading(TaskEnd.RUNNING, task.state, task.messages, task.percent)
        if task.end is not TaskEnd.RUNNING:
            break
    return task


def again(session: Session, task: PendingTask) -> TaskReading:
    """One more look at a task that an earlier call left. Raises BmcError where it cannot be looked at."""
    answer = session.answer(task.path)
    if answer.status in (429, 503):
        return TaskReading(TaskEnd.RUNNING, "it is busy")
    found = looked(answer)
    if found.end is TaskEnd.RESET and not task.at_reset:
        return TaskReading(TaskEnd.RUNNING, found.state, found.messages, found.percent)
    return found
