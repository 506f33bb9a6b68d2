"""Checks of the DCGM diagnostic: one for each level, since each is a run of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from healthcheck.checks.base import NotMeasured, Peers, check
from healthcheck.facts.dcgm import DcgmRun, DcgmTest
from healthcheck.model.outcome import Finding, Owner

# Remedy and owner by DCGM's severity of an error (dcgm_errors.h), the worst first. Without one the rule's own
# remedy holds.
ACTIONS: Mapping[str, tuple[str, Owner]] = MappingProxyType({
    "isolate": ("DCGM: cannot carry work. Keep the node drained, collect `muster evidence NODE "
                "--bug-report`, run the vendor's field diagnostic, and replace what fails it.", Owner.VENDOR),
    "reset": ("Drain the node, reset the GPU, and repeat the diagnostic; if it fails again, call the vendor.",
              Owner.OPERATOR),
    "triage": ("Read the kernel log and DCGM's (/var/log/nvidia-dcgm), reset the GPU, restart DCGM, and "
               "repeat the diagnostic; failed again, run the vendor's field diagnostic.", Owner.OPERATOR),
    "config": ("A setting, not a hardware fault: change what DCGM names, and repeat the diagnostic.",
               Owner.OPERATOR),
    "monitor": ("DCGM: the GPU can carry work. Watch it, and repeat the diagnostic at the next maintenance.",
                Owner.OPERATOR),
})
# DCGM 3's names of tests that DCGM 4 renamed. DCGM 3 reports its software tests one by one; any of the first
# ones stands for all.
SPELLINGS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "software": ("software", "denylist", "blacklist", "nvml_library"), "memory": ("memory", "gpu_memory"),
})


def _missing(run: DcgmRun, must_run: tuple[str, ...], may_skip: tuple[str, ...]) -> list[str]:
    """The tests of this level that are not in the run's report: DCGM leaves out tests that did not run."""
    known = {*run.listed, *may_skip}
    return [test for test in must_run if known.isdisjoint(SPELLINGS.get(test, (test,)))]


def _ran(test: DcgmTest, may_skip: tuple[str, ...]) -> bool:
    """Whether the test ran; one that was skipped, and may not be, was not measured."""
    if test.status == "skip" and test.test not in may_skip:
        raise NotMeasured(test, f"DCGM skipped it{': ' if test.info else ''}{test.info}")
    return test.status != "skip"


def _failure(test: DcgmTest) -> Finding | None:
    if test.status == "pass":
        return None
    worst = next((name for name in ACTIONS if any(error.severity == name for error in test.errors)), None)
    remedy, owner = ACTIONS[worst] if worst else ("", None)
    words = "; ".join(f"{error.words} (error {error.code}, {error.severity})"
                      if error.code >= 0 else error.words for error in test.errors[:3])
    observed = f"{test.status}: {words or test.info or 'no reason given'}"
    return Finding(observed, "pass", test.name, remedy=remedy, owner=owner)


def _found(
    run: DcgmRun, tests: Peers[DcgmTest], must_run: tuple[str, ...], may_skip: tuple[str, ...],
) -> Iterator[Finding]:
    judged = tests.where(lambda test: _ran(test, may_skip)).read(_failure)
    yield from (failure for _, failure in judged if failure is not None)
    if not judged:
        raise NotMeasured(run, "DCGM skipped every test")
    if missing := _missing(run, must_run, may_skip):
        raise NotMeasured(run, f"DCGM did not run {', '.join(missing)}")


@check("dcgm.diag_quick")
def dcgm_diag_quick(
    dcgm_run_quick: DcgmRun, dcgm_tests_quick: Peers[DcgmTest], *,
    must_run: tuple[str, ...] = (), may_skip: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """Every test of `dcgmi diag -r 1` passed on every GPU.

    A test that DCGM skipped, or one of `must_run` that it did not run at all, has not passed, unless it is
    one that may be skipped.
    """
    yield from _found(dcgm_run_quick, dcgm_tests_quick, must_run, may_skip)


@check("dcgm.diag_medium")
def dcgm_diag_medium(
    dcgm_run_medium: DcgmRun, dcgm_tests_medium: Peers[DcgmTest], *,
    must_run: tuple[str, ...] = (), may_skip: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """Every test of `dcgmi diag -r 2` passed on every GPU.

    A test that DCGM skipped, or one of `must_run` that it did not run at all, has not passed, unless it is
    one that may be skipped.
    """
    yield from _found(dcgm_run_medium, dcgm_tests_medium, must_run, may_skip)


@check("dcgm.diag_long")
def dcgm_diag_long(
    dcgm_run_long: DcgmRun, dcgm_tests_long: Peers[DcgmTest], *,
    must_run: tuple[str, ...] = (), may_skip: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """Every test of `dcgmi diag -r 3` passed on every GPU.

    A test that DCGM skipped, or one of `must_run` that it did not run at all, has not passed, unless it is
    one that may be skipped.
    """
    yield from _found(dcgm_run_long, dcgm_tests_long, must_run, may_skip)


@check("dcgm.diag_xlong")
def dcgm_diag_xlong(
    dcgm_run_xlong: DcgmRun, dcgm_tests_xlong: Peers[DcgmTest], *,
    must_run: tuple[str, ...] = (), may_skip: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """Every test of `dcgmi diag -r 4` passed on every GPU.

    A test that DCGM skipped, or one of `must_run` that it did not run at all, has not passed, unless it is
    one that may be skipped.
    """
    yield from _found(dcgm_run_xlong, dcgm_tests_xlong, must_run, may_skip)
