"""Findings about GPUs say where these are found, where the GPUs know."""

from __future__ import annotations

from healthcheck.facts.nvlink_place import Whereabouts
from healthcheck.judge.whereabouts import with_whereabouts
from healthcheck.model.outcome import Finding, Owner, Result, Severity, Status

WHERE = {0: Whereabouts("tray 7", 1), 1: Whereabouts("tray 7", 2), 2: Whereabouts("tray 8", None)}


def placed(subject: str, remedy: str = "", own: str = "Reset it.", status: Status = Status.FAIL,
           owner: Owner | None = None) -> Finding:
    """The finding about this subject with its place."""
    finding = Finding("a", "b", subject, remedy, owner)
    result = Result("r", "c", status, Severity.CRITICAL, (finding,), remedy=own, owner=Owner.OPERATOR)
    return with_whereabouts({"r": result}, WHERE).get("r", result).findings[0]


def test_the_remedy_names_the_places_of_all_gpus_each_once() -> None:
    assert placed("GPU 0").remedy == "Reset it. Where: tray 7, GPU module 1."
    assert placed("GPU 0, GPU 1 and GPU 2").remedy == "Reset it. Where: tray 7, GPU modules 1, 2; tray 8."


def test_a_findings_own_remedy_and_owner_stay_and_else_they_are_the_rules() -> None:
    own = placed("GPU 2", "Swap it.", owner=Owner.VENDOR)
    assert (own.remedy, own.owner) == ("Swap it. Where: tray 8.", Owner.VENDOR)
    assert placed("GPU 2").owner is Owner.OPERATOR


def test_what_is_about_no_known_gpu_stays_as_it_is() -> None:
    for subject in ("GPU 9", "nvme0", "GPU 12345"):
        assert placed(subject) == Finding("a", "b", subject)
    assert placed("GPU 0", status=Status.PASS) == Finding("a", "b", "GPU 0")
    result = Result("r", "c", Status.FAIL, Severity.CRITICAL, (Finding("a", "b", "GPU 0"),))
    assert with_whereabouts({"r": result}, {}) == {}


def test_the_remedy_is_one_line_of_a_bounded_length() -> None:
    assert len(placed("GPU 0", "x" * 5000).remedy) == 1000
