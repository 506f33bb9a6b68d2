"""A baseline's file: it comes back as it was whatever nodes have said, changes little, and hides nothing by
any edit."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.baseline import file, fileload
from healthcheck.baseline.approval import approve
from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.flags import flagged
from healthcheck.baseline.learn import merge
from healthcheck.kernellog.masking import VERSION, template
from healthcheck.kernellog.model import Baseline, KernelEventKind, Phase, Scope
from inventory.errors import RulesError, UsageError
from inventory.text import clean
from tests.healthcheck.baseline.books import (
    CATALOGUE,
    H100,
    NEXT,
    XID,
    all_approved,
    digest,
    fleet,
    learn,
    learned,
    message,
)
from tests.tries import tries

MEMORY, LINK = ("Memory: 2113000000K/2147483648K available",
                "mlx5_core 0000:18:00.0: firmware version: 28.39.1002")


def small() -> Baseline:
    """Two approved and one proposed, of two nodes."""
    return all_approved(learned(
        *fleet({"n1": [MEMORY, LINK, "cfg80211: failed to load regulatory.db"], "n2": [MEMORY, LINK]})))


def written(baseline: Baseline, folder: Path) -> Path:
    path = folder / f"{baseline.name}.yaml"
    file.write(baseline, path, file.stamp(path))
    return path


def refusal(path: Path, catalogue: Catalogue = CATALOGUE) -> str:
    with pytest.raises(RulesError) as error:
        fileload.load(path, catalogue)
    assert "\n" not in str(error.value)
    return str(error.value)


def edited(folder: Path, old: str, new: str) -> Path:
    path = written(small(), folder)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


def line_of(path: Path, what: str) -> int:
    return path.read_text().split(what)[0].count("\n") + 1


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    held = small()
    path = written(held, tmp_path)
    assert fileload.load(path, CATALOGUE) == replace(held, file=str(path))
    assert yaml.safe_load(path.read_text())["schema"] == "muster.baseline/1"


HOSTILE = st.text(st.one_of(st.characters(),
                            st.sampled_from(list(
                                "\x1b\x00\\'\":#-?[]{}|>%@`&*!\x85\u2028\u202e\ufeff\ud800\uffff \t01x<>"))),
                  max_size=40).filter(lambda text: "\n" not in text)
WORDS = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=20).map(
    str.strip).filter(bool)


@given(st.lists(HOSTILE.filter(bool), min_size=1, max_size=6), WORDS, WORDS, st.sampled_from(KernelEventKind),
       st.integers(1, 9), st.none() | st.integers(0, 7), st.tuples(HOSTILE, HOSTILE))
@settings(deadline=None, max_examples=tries(60))
def test_whatever_nodes_say_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], by: str, why: str, kind: KernelEventKind,
    count: int, priority: int | None, scope: tuple[str, str],
) -> None:
    says = [message(text, count, Phase.RUNNING, priority, kind) for text in texts]
    held = learn([digest("n1", "a", *says, MEMORY), digest("n2", "b", *says[:1])], Scope(*scope), NEXT, "any")
    held = flagged(approve(held, [one for one in held.proposed.values() if one.template != template(MEMORY)],
                           by, why), CATALOGUE)
    path = written(held, tmp_path_factory.mktemp("any"))
    assert fileload.load(path, CATALOGUE) == replace(held, file=str(path))
    assert fileload.quickly(path) == fileload.as_yaml(path)[0]
    for line in path.read_text("utf-8").split("\n"):
        assert clean(line, 100_000) == line, "a terminal could act on it"


@given(HOSTILE)
def test_escaped_text_comes_back(text: str) -> None:
    assert file.unescaped(file.escaped(text)) == text


def test_a_new_look_changes_only_what_has_changed() -> None:
    held = small()
    more = merge(held, learned(*fleet({"n1": [MEMORY, LINK], "n2": [MEMORY]}, "b2"), day=NEXT))
    before, after = file.dump(held).splitlines(), file.dump(more).splitlines()
    fresh = [line for line in after if line not in before]
    gone = [line for line in before if line not in after]
    assert fresh == [f"  last: {NEXT}", "  boots: 4", "    'n1': 'b1n1 b2n1'", "    'n2': 'b1n2 b2n2'",
                     "  boots: 3", "  last_seen: 2026-11-01", "  unseen: 2"]
    assert gone == ["  last: 2026-11-01", "  boots: 2", "    'n1': 'b1n1'", "    'n2': 'b1n2'"]


def test_entries_are_sorted_by_template() -> None:
    names = re.findall(r"^- template: '(.*)'$", file.dump(small()).split("proposed:")[0], re.MULTILINE)
    assert names == sorted(names)
    assert len(names) == 2


def test_a_file_that_hides_a_known_fault_is_refused_by_line(tmp_path: Path) -> None:
    path = edited(tmp_path, "approved:\n", f"""approved:
- template: '{template(XID)}'
  phases: [running]
  nodes: all
  boots: all
  times: 1-1
  first_seen: 2026-11-01
  last_seen: last
  by: 'mallory'
  why: 'it says so always'
  example: '{XID}'
""")
    said = refusal(path)
    assert said.startswith(f"{path}:{line_of(path, 'NVRM: Xid')}:")
    assert "is a known fault, gpu-lost of the catalogue, and no baseline can accept one" in said


def test_a_known_fault_cannot_hide_behind_another_example(tmp_path: Path) -> None:
    said = refusal(edited(tmp_path, f"template: '{template(LINK)}'", f"template: '{template(XID)}'"))
    assert "template: expected that of the example" in said


def test_a_known_fault_may_stand_proposed_and_is_never_accepted(tmp_path: Path) -> None:
    held = learned(digest("n1", "a", XID))
    assert not fileload.load(written(held, tmp_path), CATALOGUE).known


@pytest.mark.parametrize(("old", "new", "said", "near"), [
    ("schema: muster.baseline/1", "schema: muster.baseline/2",
     "schema: expected muster.baseline/1, got 'muster.baseline/2'", "schema:"),
    ("approved:", "aproved:", "unknown key 'aproved'; did you mean 'approved'?", "aproved"),
    ("  times: 1-1", "  times: 3-1", "times: expected the least and the most in one boot, as 1-3",
     "times: 3"),
    ("  times: 1-1", "  time: 1-1", "unknown key 'time'; did you mean 'times'?", "  time:"),
    ("phases: [kernel]", "phases: [kernle]",
     "phases: expected some of kernel, initrd, services, running, unknown", "kernle"),
    ("first_seen: 2026-11-01", "first_seen: 2026-11-31",
     "first_seen: expected a date, as 2026-11-21, got '2026-11-31'", "2026-11-31"),
    ("  by: 'anna'\n", "", "approved: by: is missing: expected who approved it, and why", "- template"),
    ("  boots: all", "  boots: 99", "boots: expected a number from 0 to 2, got 99", "boots: 99"),
    ("  nodes: 2", "  nodes: 3", "nodes: expected 2, as many as node_boots names", "nodes: 3"),
    ("  node_boots:\n", "  looks: {}\n  node_boots:\n",
     "learned: looks is node_boots by its former name; write it once", "looks:"),
    ("scope: {sku", "scope: {cpu: '', sku", "unknown key 'cpu'", "scope: {cpu"),
    ("  flags: ", "  flag: ", "unknown key 'flag'; did you mean 'flags'?", "  flag:"),
    ("    'n1':", "    'n 1':", "expected the name of a node", "'n 1'"),
    ("  expires_days: 180", "  expires_days: 0", "expires_days: expected a number from 1 to 36500, got 0",
     "expires_days"),
    (f"template: '{template(LINK)}'", "template: 'a \\q'",
     "a backslash that begins no escape, at character 3", "\\q"),
])
def test_a_mistake_is_reported_by_file_line_and_key(
    tmp_path: Path, old: str, new: str, said: str, near: str,
) -> None:
    path = edited(tmp_path, old, new)
    told_ = refusal(path)
    assert said in told_
    assert told_.startswith(f"{path}:{line_of(path, near)}:")


def test_a_template_stands_once(tmp_path: Path) -> None:
    path = written(small(), tmp_path)
    text = path.read_text()
    block = text[text.index("- template"):text.index("- template", text.index("- template") + 5)]
    path.write_text(text.replace("approved:\n", f"approved:\n{block}", 1))
    assert "stands at line" in refusal(path)


@given(st.text(max_size=200), st.integers(0, 2000))
@settings(deadline=None, max_examples=tries(50))
def test_any_edit_gives_a_baseline_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, text: str, at: int,
) -> None:
    path = written(small(), tmp_path_factory.mktemp("edit"))
    whole = path.read_text()
    path.write_text(whole[:at] + text + whole[at + 7:], "utf-8", "surrogatepass")
    quick = fileload.quickly(path)
    try:
        assert quick in (None, fileload.as_yaml(path)[0])
        assert fileload.load(path, CATALOGUE).nodes >= 0
    except RulesError as error:
        assert "\n" not in str(error)
        assert quick is None or "example" in str(error)


def test_a_file_of_an_earlier_version_is_read_and_written_in_the_new_form(tmp_path: Path) -> None:
    held = small()
    path = written(held, tmp_path)
    whole = path.read_text()
    path.write_text(whole.replace("  node_boots:", "  looks:"))
    quick = fileload.quickly(path)
    assert quick is not None and quick == fileload.as_yaml(path)[0]
    again = fileload.load(path, CATALOGUE)
    assert (again.learned_boots, again.known) == (held.learned_boots, held.known)
    file.write(again, path, file.stamp(path))
    assert path.read_text() == whole


def test_templates_of_other_masks_are_made_anew(tmp_path: Path) -> None:
    held = small()
    path = written(held, tmp_path)
    text = path.read_text().replace(f"masks: {VERSION}", "masks: 0").replace(
        template(LINK), "mlx5_core <pci>: as it was masked then")
    path.write_text(text)
    assert fileload.load(path, CATALOGUE).known == held.known


def test_a_file_over_the_limit_is_not_written_and_the_old_one_stays(tmp_path: Path) -> None:
    path = written(small(), tmp_path)
    before = path.read_bytes()
    big = replace(small(),
                  known={text: replace(one, why="y" * 9_000_000) for text, one in small().known.items()})
    with pytest.raises(UsageError, match="over the limit of 16"):
        file.write(big, path, file.stamp(path))
    assert path.read_bytes() == before


def test_a_link_is_followed_and_the_files_mode_is_kept(tmp_path: Path) -> None:
    path = written(small(), tmp_path)
    path.chmod(0o640)
    (tmp_path / "link.yaml").symlink_to(path)
    file.write(replace(small(), boots=7), tmp_path / "link.yaml", file.stamp(path))
    assert (tmp_path / "link.yaml").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert "  boots: 7" in path.read_text()


def test_what_someone_else_has_written_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = written(small(), tmp_path)
    since = file.stamp(path)
    written(replace(small(), boots=7), tmp_path)
    with pytest.raises(UsageError, match="changed by someone else meanwhile"):
        file.write(small(), path, since)
    assert "  boots: 7" in path.read_text()


def test_baselines_of_a_later_folder_override_those_of_the_same_name(tmp_path: Path) -> None:
    folders = [tmp_path / "etc", tmp_path / "site"]
    for folder, names in zip(folders, (("a", "b"), ("b", "c")), strict=True):
        (folder / "baseline").mkdir(parents=True)
        for name in names:
            written(replace(small(), name=name), folder / "baseline")
    found = fileload.load_baselines([tmp_path / "none", *folders], CATALOGUE)
    assert [(one.name, one.file) for one in found] == [("a", str(folders[0] / "baseline/a.yaml")),
                                                       ("b", str(folders[1] / "baseline/b.yaml")),
                                                       ("c", str(folders[1] / "baseline/c.yaml"))]


KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
import healthcheck.config.files
from tests.healthcheck.baseline import test_file
from healthcheck.baseline import file
step, path = sys.argv[1], Path(sys.argv[2])
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
real = os.fsync
if step == "write": healthcheck.config.files.tempfile.mkstemp = die
if step == "fsync": healthcheck.config.files.os.fsync = die
if step == "rename": Path.replace = die
if step == "after":
    rename = Path.replace
    Path.replace = lambda self, to: (rename(self, to), die())
file.write(replace(test_file.small(), boots=7), path, file.stamp(path))
"""


@pytest.mark.parametrize("step", ["write", "fsync", "rename", "after"])
def test_a_kill_while_it_is_written_leaves_the_old_file_or_the_new_one(tmp_path: Path, step: str) -> None:
    path = written(small(), tmp_path)
    before = path.read_text()
    done = subprocess.run([sys.executable, "-c", KILLED, step, str(path)], cwd=Path(__file__).parents[3],
                          check=False)
    assert done.returncode == -signal.SIGKILL
    after = path.read_text()
    assert (after == before) is (step != "after")
    assert fileload.load(path, CATALOGUE).scope == H100
