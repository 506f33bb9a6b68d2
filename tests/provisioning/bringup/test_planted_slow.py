"""Sixteen machines with a real systemd each, half of them with planted troubles, to service."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from healthcheck.store import bringups
from healthcheck.store.file import opened
from tests.provisioning.bringup.plantedends import ENDS, End, Touched, touched
from tests.provisioning.bringup.plantedrack import POLICY, Moment, Site, machines, real, site
from tests.testbed.bmcs import Machine, Wrong, require_rack
from tests.testbed.nspawn import require_nspawn

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(1800)]
PLANTED = {
    Wrong.NO_ONE: 1, Wrong.PASSWORD: 1, Wrong.PSU_FAILED: 1, Wrong.BIOS_IGNORED: 1, Wrong.NO_POWER: 1,
    Wrong.NO_OS: 1, Wrong.SICK_AT_FIRST: 1, Wrong.LOSES_ANSWERS: 1}
_SKU = "sku: gx8\ntitle: a server without GPUs\ninherit: cpu-only\nsource: a test's\n"
# Containers share this machine's kernel, its memory and its clock; whether those are as they should be is not
# theirs to say.
_PROFILE = ("profile: bringup\nleave_out: [docker-images, host-bios, host-cmdline, 'host-clock-*', "
            "memory-hugepages-leaked]\n")
_RULES = """\
- {id: service-expected, with: {names: [ssh, chrony]}}
- {id: service-failed, with: {ignore: [systemd-remount-fs, systemd-sysusers]}}
"""
_WITHOUT = "without: [kernel, leased, burnin, certificate]\nchecks: {snapshots: 2, between_seconds: 5}\n"


def rack() -> list[Machine]:
    return machines(16, PLANTED, gpus=0)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require_rack()
    require_nspawn()
    policy = "".join(f"{line}\n" for line in POLICY.replace("minutes: 0.3", "minutes: 1.5").splitlines()
                     if not line.startswith("without"))
    with site(tmp_path_factory.mktemp("real") / "home", rack(), policy + _WITHOUT, real, _SKU) as made:
        (made.home / "rules/profile").mkdir()
        (made.home / "rules/profile/bringup.yaml").write_text(_PROFILE)
        (made.home / "rules/site.yaml").write_text(_RULES)
        yield made


def test_all_steps_to_service_on_real_nodes_though_the_run_is_killed_twice(
    there: Site, capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("bringup", "run", "gx[01-16]", "--apply", "--rules", "rules")
    assert there.killed(*words, when=Moment(0, 5))
    assert there.killed(*words, when=Moment(0, 20))
    there.muster("bringup", "resume", "--rules", "rules", seconds=900)
    there.muster("bringup", "status", "--json")
    stand = {one["node"]: one for one in json.loads(there.output[-1])["machines"]}
    assert not [(one.name, one.wrong, stand[one.name]) for one in rack()
                if _end(stand[one.name]) != ENDS[one.wrong]], there.output[-2][-3000:]
    counted = there.bed.all_counts()
    for one in rack():
        if one.wrong is not Wrong.NO_POWER:
            assert Touched(*(counted[one.name][operation] for operation in ("bios", "off", "on"))) == touched(
                one.wrong, one.on), one
    with opened(there.home / "state") as store:
        lines = bringups.steps(store)
    with capsys.disabled():
        for name in dict.fromkeys(line.step for line in lines):
            spans = [line.ended - line.began for line in lines
                     if line.step == name and line.ended is not None and line.outcome == "so"]
            print(f"{name:12} {len(spans):3} machines, longest {max(spans, default=0.0):6.1f} s")


def _end(machine: dict[str, object]) -> End:
    troubles = machine["troubles"]
    return End(
        str(machine["step"]), machine["owner"],
        troubles[0]["part"] if isinstance(troubles, list) and troubles else "")  # type: ignore[arg-type]
