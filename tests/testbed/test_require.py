"""A missing component fails in CI and is skipped, with its reason, elsewhere."""

from __future__ import annotations

import pytest

from tests.testbed.require import require


def test_what_is_there_is_no_matter_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    require("/usr/sbin/sshd", "no sshd")


def test_in_ci_a_missing_component_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no sshd on this machine"):
        require(None, "no sshd on this machine")


def test_elsewhere_it_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no sshd on this machine"):
        require(None, "no sshd on this machine")
