"""MAAS's statuses, what each says of the system, and what may be asked in it; pure. The numbers and words are
those of NODE_STATUS and its labels, and the operations those that NODE_TRANSITIONS allows (canonical/maas:
src/maascommon/enums/node.py, src/maascommon/node.py, src/maasserver/node_status.py)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from provisioning.osinstall.base import OsError, OsReport, OsState
from provisioning.osinstall.maas.machines import MaasMachine
from provisioning.osinstall.maas.options import MaasOptions


class MaasStatus(IntEnum):
    """Where a machine stands in MAAS."""

    NEW = 0
    COMMISSIONING = 1
    FAILED_COMMISSIONING = 2
    MISSING = 3
    READY = 4
    RESERVED = 5
    DEPLOYED = 6
    RETIRED = 7
    BROKEN = 8
    DEPLOYING = 9
    ALLOCATED = 10
    FAILED_DEPLOYMENT = 11
    RELEASING = 12
    FAILED_RELEASING = 13
    DISK_ERASING = 14
    FAILED_DISK_ERASING = 15
    RESCUE_MODE = 16
    ENTERING_RESCUE_MODE = 17
    FAILED_ENTERING_RESCUE_MODE = 18
    EXITING_RESCUE_MODE = 19
    FAILED_EXITING_RESCUE_MODE = 20
    TESTING = 21
    FAILED_TESTING = 22


class MaasOperation(Enum):
    """What may be asked of a machine next; the value is MAAS's op."""

    NOTHING = ""
    COMMISSION = "commission"
    TEST = "test"
    ALLOCATE = "allocate"
    DEPLOY = "deploy"
    RELEASE = "release"


# MAAS's word where it is not the enumeration's.
_LABELS = {
    MaasStatus.FAILED_RELEASING: "releasing failed",
    MaasStatus.FAILED_ENTERING_RESCUE_MODE: "failed to enter rescue mode",
    MaasStatus.FAILED_EXITING_RESCUE_MODE: "failed to exit rescue mode"}
LABELS = {one: _LABELS.get(one, one.name.replace("_", " ").lower()) for one in MaasStatus}
_BY_LABEL = {label: one for one, label in LABELS.items()}
PASSED, NO_TESTS, ABORTED = 2, -1, 5        # of SCRIPT_STATUS

_STATES = {status: state for state, statuses in {
    OsState.PLANNED: (MaasStatus.NEW, MaasStatus.READY, MaasStatus.RESERVED, MaasStatus.ALLOCATED),
    # What is released is on its way to Ready, from which it is deployed.
    OsState.INSTALLING: (MaasStatus.COMMISSIONING, MaasStatus.TESTING, MaasStatus.DEPLOYING,
                         MaasStatus.RELEASING, MaasStatus.DISK_ERASING),
    OsState.INSTALLED: (MaasStatus.DEPLOYED,),
    # In rescue mode a person is at work, and may put back what was deployed.
    OsState.UNKNOWN: (MaasStatus.MISSING, MaasStatus.RESCUE_MODE, MaasStatus.ENTERING_RESCUE_MODE,
                      MaasStatus.EXITING_RESCUE_MODE),
    OsState.FAILED: (MaasStatus.RETIRED, MaasStatus.BROKEN,
                     *(one for one in MaasStatus if one.name.startswith("FAILED_"))),
}.items() for status in statuses}
_NEXT = {
    MaasStatus.FAILED_COMMISSIONING: "see its commissioning results in MAAS, and ask again: it is "
                                     "commissioned anew",
    MaasStatus.MISSING: "find out in MAAS why it cannot be contacted",
    MaasStatus.RESERVED: "no present MAAS leads on from there: maas PROFILE machine release {id}",
    MaasStatus.RETIRED: "put it back into use in MAAS",
    MaasStatus.BROKEN: "repair it, then: maas PROFILE machine mark-fixed {id}",
    MaasStatus.FAILED_DEPLOYMENT: "see its installation log in MAAS, and ask again: muster releases and "
                                  "deploys again what it deployed itself; else: maas PROFILE machine release "
                                  "{id}",
    MaasStatus.FAILED_RELEASING: "see its events in MAAS, then: maas PROFILE machine release {id}",
    MaasStatus.FAILED_DISK_ERASING: "see its events in MAAS, then: maas PROFILE machine release {id}",
    MaasStatus.RESCUE_MODE: "someone is at work on it; when that is over: maas PROFILE machine "
                            "exit-rescue-mode {id}",
    MaasStatus.ENTERING_RESCUE_MODE: "someone is at work on it; wait for that",
    MaasStatus.EXITING_RESCUE_MODE: "it comes out of rescue mode; wait for that",
    MaasStatus.FAILED_ENTERING_RESCUE_MODE: "see its events in MAAS, then: maas PROFILE machine "
                                            "exit-rescue-mode {id}",
    MaasStatus.FAILED_EXITING_RESCUE_MODE: "see its events in MAAS, then: maas PROFILE machine "
                                           "exit-rescue-mode {id}",
    MaasStatus.FAILED_TESTING: "see its test results in MAAS, and ask again: it is tested anew; to take it "
                               "as it is: maas PROFILE machine override-failed-testing {id}"}


@dataclass(frozen=True)
class MaasStep:
    """What is asked of a machine next, or why nothing can be: then `refused` is one line."""

    operation: MaasOperation = MaasOperation.NOTHING
    refused: str = ""


def status_of(one: MaasMachine) -> MaasStatus | None:
    """The machine's status; None for a number that muster does not know, or a word that is another's."""
    try:
        status = MaasStatus(one.status)
    except ValueError:
        return None
    return None if _BY_LABEL.get(one.status_name.lower(), status) is not status else status


def report(one: MaasMachine, options: MaasOptions) -> OsReport:
    """How the machine stands. MAAS has no host keys to report."""
    status = status_of(one)
    if status is None:
        return OsReport(OsState.UNKNOWN, f"{one.called}: MAAS says status {one.status}, "
                        f"{one.status_name or 'without a name'}, which muster does not know")
    said = [f"{one.called}: {LABELS[status]}"]
    said += [one.image] if one.image else []
    said += [f"owner {one.owner}"] if one.owner else []
    said += ["locked"] if one.locked else []
    said += [f"power {one.power}"] if one.power and one.power != "on" else []
    said += [words] if status is not MaasStatus.DEPLOYED and (words := one.error or one.event) else []
    state, advice = _STATES[status], _NEXT.get(status, "").format(id=one.system_id)
    if status is MaasStatus.DEPLOYED and (wrong := _wrong_image(one, options)):
        state = OsState.FAILED if one.image else OsState.UNKNOWN
        said.append(wrong)
        advice = (f"if what is on it may go: maas PROFILE machine release {one.system_id}, and ask again; "
                  "else correct the image that is asked for")
    if status is MaasStatus.TESTING and one.image:
        state, advice = OsState.UNKNOWN, "wait until its tests are over: it was deployed before"
    return OsReport(state, ", ".join(said), one.image, (), advice)


def next_step(one: MaasMachine, options: MaasOptions, user: str, node: str) -> MaasStep:
    """What leads the machine towards being deployed for `user`, the key's account, as `node`; nothing for one
    on its way, or there. Nothing that is deployed is touched."""
    status = status_of(one)
    if status is None:
        return MaasStep(refused=f"{one.called} has status {one.status}, which muster does not know")
    if status in (MaasStatus.COMMISSIONING, MaasStatus.TESTING, MaasStatus.DEPLOYING, MaasStatus.RELEASING,
                  MaasStatus.DISK_ERASING):
        return MaasStep()
    if status is MaasStatus.DEPLOYED:
        wrong = _wrong_image(one, options)
        return MaasStep(refused=f"{one.called} is deployed: {wrong}" if wrong else "")
    if one.locked:
        return MaasStep(refused=f"{one.called} is locked; if that may end: maas PROFILE machine unlock "
                        f"{one.system_id}")
    # Whoever commissions a machine owns it for that time.
    if one.owner and one.owner != user and _LEADS_ON.get(status) is not MaasOperation.COMMISSION:
        return MaasStep(refused=f"{one.called} is {LABELS[status]} and belongs to {one.owner} in MAAS, not "
                        f"to {user}")
    if status is MaasStatus.FAILED_DEPLOYMENT and one.mark != node:
        return MaasStep(refused=f"{one.called}: its deployment failed, and was not muster's for {node}; if "
                        f"what is on it may go: maas PROFILE machine release {one.system_id}")
    if status is MaasStatus.FAILED_TESTING and one.image:
        # A test may write to disks.
        return MaasStep(refused=f"{one.called} was deployed ({one.image}) before its tests failed; "
                        f"{_NEXT[status].format(id=one.system_id)}")
    if status is MaasStatus.READY and options.tested and one.testing != PASSED:
        if one.testing in (NO_TESTS, ABORTED):
            return MaasStep(MaasOperation.TEST)
        return MaasStep(refused=f"{one.called}: its tests ended as {one.testing_name or one.testing}; see "
                        "them in MAAS")
    if status in _LEADS_ON:
        return MaasStep(_LEADS_ON[status])
    return MaasStep(refused=f"{one.called} is {LABELS[status]}; {_NEXT[status].format(id=one.system_id)}")


_LEADS_ON = {
    MaasStatus.NEW: MaasOperation.COMMISSION, MaasStatus.FAILED_COMMISSIONING: MaasOperation.COMMISSION,
    MaasStatus.FAILED_TESTING: MaasOperation.TEST, MaasStatus.READY: MaasOperation.ALLOCATE,
    MaasStatus.ALLOCATED: MaasOperation.DEPLOY,
    MaasStatus.FAILED_DEPLOYMENT: MaasOperation.RELEASE}
_RELEASABLE = frozenset((
    MaasStatus.ALLOCATED, MaasStatus.RESERVED, MaasStatus.BROKEN, MaasStatus.DEPLOYING, MaasStatus.DEPLOYED,
    MaasStatus.FAILED_DEPLOYMENT, MaasStatus.FAILED_DISK_ERASING, MaasStatus.FAILED_RELEASING))


def may_release(one: MaasMachine, user: str, node: str, typed: str) -> bool:
    """Whether to release the machine now, not if it is or soon will be. What is not muster's for this node
    and account goes only where its name was `typed`. Raises OsError."""
    status = status_of(one)
    if status in (MaasStatus.READY, MaasStatus.RELEASING, MaasStatus.DISK_ERASING):
        return False
    if status not in _RELEASABLE:
        words = LABELS[status] if status is not None else f"in status {one.status}"
        raise OsError(f"{one.called} is {words}, from which MAAS releases nothing")
    if one.locked:
        raise OsError(f"{one.called} is locked; if that may end: maas PROFILE machine unlock {one.system_id}")
    if (one.mark != node or one.owner != user) and typed != node:
        raise OsError(f"{one.called} is {LABELS[status]} for {one.owner or 'no one'} and was not deployed by "
                      f"muster as {node}; nothing changed: its name has to be typed")
    return True


def _wrong_image(one: MaasMachine, options: MaasOptions) -> str:
    """How a deployed image is another than the one that is asked for."""
    if not options.distro_series:
        return ""
    if not one.series:
        return f"MAAS does not say with which image, {options.image} is asked for"
    if one.series != options.distro_series or (options.osystem and one.osystem != options.osystem):
        return f"it has {one.image}, {options.image} is asked for"
    return ""
