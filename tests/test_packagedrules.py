"""Packaged rules that were read before are those that a command would read."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.triage.policyload import load_policy
from inventory.located import LocatedMap, load_yaml
from provisioning.bringup.policy.load import load as load_bringup
from tests import packagedrules

SITE = ("- id: gpu-count\n  severity: info\n- id: site-idle\n  check: gpu.idle\n  severity: info\n  remedy: "
        "Look.\n  source: this site\n  proven: documented\n")


def everything(value: Any) -> Any:
    """A document with all places of its keys and values."""
    if isinstance(value, dict):
        assert isinstance(value, LocatedMap)
        return {key: everything(one)
                for key, one in value.items()}, value.mark, value.key_marks, value.value_marks, value.written
    if isinstance(value, list):
        return [everything(one) for one in value]
    return value


def test_what_was_read_is_not_changed_by_who_reads_it(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    packagedrules.read_all()
    before = copy.deepcopy({place: everything(document)
                            for place, document in packagedrules._documents.items()})
    ruleset = load_ruleset([packaged(), tmp_path])
    load_policy([packaged(), tmp_path], ruleset)
    (tmp_path / "bringup.yaml").write_text("os: {image: r7}\nbase: {timezone: Europe/Berlin}\n")
    load_bringup([packaged(), tmp_path])
    assert ruleset.kernel is not None and {place: everything(document)
                                           for place, document in packagedrules._documents.items()} == before


def test_a_site_is_laid_over_what_was_read_as_over_what_is_read_anew(tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    known = load_ruleset([packaged(), tmp_path])
    alone = load_ruleset([packaged()])
    monkeypatch.setattr("inventory.located.parse_yaml", packagedrules._parse)
    monkeypatch.setattr("healthcheck.ruleset.rulesetcache.load", packagedrules._load)
    for kept, anew in ((known, load_ruleset([packaged(), tmp_path])), (alone, load_ruleset([packaged()]))):
        differ = [field.name for field in dataclasses.fields(kept)
                  if field.name not in ("kernel_from", "xids_from")
                  and getattr(kept, field.name) != getattr(anew, field.name)]
        assert differ == [] and kept.rules


def test_a_document_that_is_none_of_the_packaged_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")
    assert load_yaml(path) is not load_yaml(path)
