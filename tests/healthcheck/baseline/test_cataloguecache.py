"""The catalogue that was read is kept, is as the one that was read, and never stands for other files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from healthcheck.baseline.cataloguecache import catalogue
from healthcheck.baseline.catalogueload import load_catalogue
from inventory.errors import RulesError
from tests.healthcheck.baseline.packaged import part

ENTRY = """\
- id: site-fault
  match: '\\w{1,8} has exploded'
  severity: critical
  meaning: It exploded.
  remedy: Replace it.
  owner: vendor
  source: ours
  examples: ['frobnicator 3: it has exploded']
  from: frobnicator
  ends: repair
"""
EMITTER = """\
- id: frobnicator
  begins: 'frobnicator \\d: '
  source: ours
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "muster"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site" / "kernel").mkdir(parents=True)
    (tmp_path / "site" / "kernel" / "ours.yaml").write_text(ENTRY)
    (tmp_path / "site" / "emitter").mkdir()
    (tmp_path / "site" / "emitter" / "ours.yaml").write_text(EMITTER)
    return tmp_path / "site"


def test_what_is_kept_is_what_is_read(cache: Path, site: Path, tmp_path: Path) -> None:
    folders = [part(tmp_path / "shipped"), site]
    read = load_catalogue(folders)
    assert catalogue(folders) == read == catalogue(folders)
    (kept,) = cache.iterdir()
    assert kept.name.startswith("catalogue-")
    assert len(json.loads(kept.read_bytes()[32:])) == len(read.entries)


def test_a_file_that_changed_is_read_again_and_a_mistake_in_it_is_reported(cache: Path, site: Path) -> None:
    assert catalogue([site]).by_id("site-fault") is not None
    (site / "kernel" / "ours.yaml").write_text(ENTRY.replace("critical", "warning"))
    changed = catalogue([site]).by_id("site-fault")
    assert changed is not None and changed.severity.value == "warning"
    (site / "kernel" / "ours.yaml").write_text(ENTRY.replace("exploded'\n", "(a+)+$ exploded'\n", 1))
    with pytest.raises(RulesError):
        catalogue([site])


def test_an_emitter_that_changed_is_read_again_and_a_mistake_in_it_is_reported(
    cache: Path, site: Path,
) -> None:
    lines = ("frobnicator 3: it has exploded", "frobnicator of 3: it has exploded")
    assert [getattr(catalogue([site]).find(line), "id", None) for line in lines] == [
        "site-fault", None]
    (site / "emitter" / "ours.yaml").write_text(EMITTER.replace("frobnicator \\", "frobnicator (?:of )?\\"))
    changed = catalogue([site])
    assert [getattr(changed.find(line), "id", None) for line in lines] == ["site-fault", "site-fault"]
    assert catalogue([site]) == changed == load_catalogue([site])
    (site / "emitter" / "ours.yaml").write_text(EMITTER.replace("frobnicator", "other"))
    with pytest.raises(RulesError, match="there is no emitter 'frobnicator'"):
        catalogue([site])


@pytest.mark.parametrize("text", ["", "{", "[]x", '[{"id": 3}]', '{"a": 1}', "null"])
def test_what_is_no_catalogue_is_read_past(cache: Path, site: Path, text: str) -> None:
    read = catalogue([site])
    (kept,) = cache.iterdir()
    kept.write_bytes(hashlib.sha256(text.encode()).digest() + text.encode())
    assert catalogue([site]) == read
