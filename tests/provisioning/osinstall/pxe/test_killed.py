"""kill -9 at every write: a record is the old or the new one, and what was asked can be asked again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provisioning.osinstall.base import OsState
from provisioning.osinstall.pxe import phonehome, record
from provisioning.osinstall.pxe.record import InstallationStage
from tests.provisioning.osinstall.pxe.pxesite import KEY, Place, home, mac, node, seed_path
from tests.testbed.killing import changes


def armed(place: Place) -> None:
    place.armed()


def boot(place: Place) -> None:
    place.ask(f"/boot/{mac(1)}.ipxe")


def seed(place: Place) -> None:
    place.ask(seed_path(place.record(), "user-data"))


def written(place: Place) -> None:
    place.ask(seed_path(place.record(), "written"))


def failed(place: Place) -> None:
    place.ask(seed_path(place.record(), "failed?why=x"))


def overdue(place: Place) -> None:
    place.clock.now += 10 ** 6
    place.site.overdue()


def phoned(place: Place) -> None:
    held = place.record()
    body = home(held)
    assert place.done(body, phonehome.signed(held.token, body)).status == 200


def disarmed(place: Place) -> None:
    place.records.change("gpu001", lambda old: old and record.disarmed(old, place.clock()))


ACTS: dict[str, tuple[tuple[Callable[[Place], None], ...], Callable[[Place], None],
                      InstallationStage, OsState]] = {
                          "arming": ((), armed, InstallationStage.ARMED, OsState.INSTALLING),
                          "arming again": ((armed, failed), armed, InstallationStage.ARMED,
                                           OsState.INSTALLING),
                          "the boot script": ((armed,), boot, InstallationStage.BOOT, OsState.INSTALLING),
                          "the seed": ((armed, boot), seed, InstallationStage.SEED, OsState.INSTALLING),
                          "the written disk": ((armed, boot, seed), written, InstallationStage.WRITTEN,
                                               OsState.INSTALLING),
                          "a failure": ((armed, boot, seed), failed, InstallationStage.FAILED,
                                        OsState.FAILED),
                          "a time that is over": ((armed, boot, seed), overdue, InstallationStage.FAILED,
                                                  OsState.FAILED),
                          "the phone-home": ((armed, boot, seed, written), phoned, InstallationStage.DONE,
                                             OsState.INSTALLED),
                          "disarming": ((armed, boot), disarmed, InstallationStage.DISARMED, OsState.PLANNED),
                      }


# Written as others are, with one record before them more or fewer.
SLOW = ("arming again", "the boot script", "the seed", "the written disk", "a failure", "disarming")


@pytest.mark.parametrize("act", [pytest.param(act, marks=[pytest.mark.slow] if act in SLOW else [])
                                 for act in ACTS])
def test_killed_at_every_write_the_record_is_the_old_or_the_new_one(act: str, tmp_path: Path) -> None:
    before, does, stage, state = ACTS[act]

    def place(name: str) -> Place:
        made = Place(tmp_path / name)
        for one in before:
            one(made)
        return made

    whole = place("whole")
    count = changes(lambda: does(whole))
    assert whole.record().stage is stage and count >= 3, count
    for at in range(count):
        cut = place(f"cut{at}")
        old = Place(cut.state).records.read("gpu001")
        changes(lambda one=cut: does(one), at)      # type: ignore[misc]
        found = Place(cut.state).records.read("gpu001")
        assert found == old or (found is not None and found.stage is stage), (at, found)
        again = Place(cut.state, clock=cut.clock)
        # Where the new record was written before the kill, the act may be over, and refused a second time.
        if found == old:
            does(again)
        assert again.record().stage is stage and again.backend.state(node()).state is state
        if stage is InstallationStage.DONE:
            assert again.backend.state(node()).host_keys == (KEY,)
            assert again.record().token == again.record().ticket == ""
