"""Known messages: each knows its own examples before any other does, a site's go first,
and every mistake is one line with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.joblog.messageload import load_messages
from healthcheck.joblog.messages import KnownMessage, find
from inventory.errors import RulesError
from tests.healthcheck.explain.cases import messages

GOOD = """
- id: site-watchdog
  match: 'site watchdog: rank \\d+ is stuck'
  sure: likely
  severity: warning
  meaning: Our own watchdog ended the job
  remedy: Ask the platform's people.
  owner: user
  source: our launcher
  examples: ['site watchdog: rank 17 is stuck']
"""


@pytest.mark.parametrize("message", messages(), ids=lambda message: message.id)
def test_an_example_is_known_by_its_own_message_before_any_other(message: KnownMessage) -> None:
    for example in message.examples:
        (found,) = find(f"before\n{example}\nafter\n", messages())
        assert (found.message.id, found.place, found.text) == (message.id, 7, example)


def test_every_line_is_known_once_wherever_it_stands() -> None:
    lines = [example for message in messages() for example in message.examples]
    text = "\n".join(part for line in lines for part in (line, "step 12 | loss 1.2 İ"))
    assert sorted(found.text for found in find(text, messages())) == sorted(lines)


def site(tmp_path: Path, text: str) -> list[Path]:
    (tmp_path / "joblog").mkdir()
    (tmp_path / "joblog/site.yaml").write_text(text)
    return [packaged(), tmp_path]


def test_a_site_adds_messages_before_the_packaged_ones(tmp_path: Path) -> None:
    own = GOOD.replace("site watchdog", "CUDA out of memory in site watchdog")
    first, *others = load_messages(site(tmp_path, own))
    assert first.id == "site-watchdog"
    assert len(others) == len(messages())
    (found,) = find("CUDA out of memory in site watchdog: rank 3 is stuck", [first, *others])
    assert found.message is first


def test_a_site_overrides_a_message_key_by_key_and_switches_one_off(tmp_path: Path) -> None:
    folders = site(tmp_path, "- {id: cuda-ecc, owner: vendor}\n- {id: teardown, enabled: false}\n")
    known = {message.id: message for message in load_messages(folders)}
    assert known["cuda-ecc"].owner.value == "vendor"
    assert known["cuda-ecc"].meaning == next(message for message in messages()
                                             if message.id == "cuda-ecc").meaning
    assert known["teardown"].disabled
    assert not list(find("Some NCCL operations have failed or timed out", list(known.values())))


@pytest.mark.parametrize(("change", "said"), [
    (("sure: likely", "sure: perhaps"),
     "site.yaml:4:9: message site-watchdog: sure: expected one of certain, likely, a guess; got 'perhaps'"),
    (("owner: user", "owner: users"), "did you mean 'user'?"),
    (("  source: our launcher\n", ""), "source: is missing: expected a sentence"),
    (("rank 17 is stuck']", "rank x is stuck']"), "examples: match does not match"),
    (("match:", "matches:"), "did you mean 'match'?"),
    (("'site watchdog: rank \\d+ is stuck'", "'(a+)+b'"), "match: "),
    (("'site watchdog: rank \\d+ is stuck'", "'\\d+'"), "match: holds no word"),
    (("'site watchdog: rank \\d+ is stuck'", "'site (watch'"), "match: is no regular expression"),
    (("severity: warning", "severity: warning\n  symptom: 3"), "symptom: expected true or false, got 3"),
    (("owner: user", "owner: user\n  fault: cable"), "fault: expected one of gpu, network, host"),
    (("owner: user", "owner: user\n  least: 0"), "least: expected a number of lines, 1 or more"),
    (("owner: user", "owner: user\n  accuses: everyone"),
     "accuses: expected one of node, peer, adapter, none"),
    (("owner: user", "owner: user\n  brief: 3"), "brief: expected a sentence"),
], ids=["sure", "owner", "source", "example", "key", "slow", "wordless", "broken", "switch", "fault", "least",
        "accuses", "brief"])
def test_a_mistake_is_one_line_with_file_and_line(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(RulesError) as refused:
        load_messages(site(tmp_path, GOOD.replace(*change)))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_id_twice_and_what_is_no_list_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="is defined twice"):
        load_messages(site(tmp_path, GOOD + GOOD))
    (tmp_path / "joblog/site.yaml").write_text("a: 1\n")
    with pytest.raises(RulesError, match="expected a list of messages"):
        load_messages([packaged(), tmp_path])
