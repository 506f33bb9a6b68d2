"""rules/burnin.yaml: figures hold for like conditions only; a mistake is one line with its place and key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin.published import BUSBW, GIB, Setting, is_model
from healthcheck.burnin.publishedload import load_burnin
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from inventory.errors import ConfigError, RulesError
from tests.healthcheck.burnin.made import H100, RULES
from tests.tries import tries

IN_NODE = Setting(BUSBW, "node", H100, 8, 1, 0, 0, 8 * GIB, "auto")
PAIR = Setting(BUSBW, "leaf-pairs", H100, 8, 2, 8, 400, 8 * GIB, "ring", nvlink=False)
GEMM = Setting("tflops_bf16", "node", H100)


def found(setting: Setting) -> str | None:
    known = RULES.value(setting)
    return None if known is None else known[1].id


def site(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "burnin.yaml").write_text(text)
    return folder


def test_every_published_figure_names_its_source_and_is_found_by_its_own_conditions() -> None:
    assert len(RULES.published) > 30 and all(one.source for one in RULES.published)
    assert found(IN_NODE) == "h100-node" and found(replace(IN_NODE, algo="ring")) == "h100-node-ring"
    assert found(GEMM) == "h100-bf16"


def test_what_is_published_for_a_nic_counts_for_each_nic_of_a_ring() -> None:
    value, entry = RULES.value(PAIR) or (0, None)
    assert value == 8 * 46 and entry is not None and entry.id == "nic-400"
    assert (RULES.value(replace(PAIR, nics=1, gpus=1)) or (0,))[0] == 46


@pytest.mark.parametrize("other", [
    {"gpu": "NVIDIA H100 PCIe"}, {"gpu": "NVIDIA H100 NVL"}, {"gpu": "NVIDIA L40S"}, {"gpu": ""}, {"gpus": 4},
    {"nodes": 2},
    {"nvlink": False}, {"size": 4 * GIB - 1}, {"algo": "tree"}, {"backend": "gloo"},
])
def test_nothing_holds_for_other_conditions(other: dict[str, object]) -> None:
    assert found(replace(IN_NODE, **other)) is None  # type: ignore[arg-type]


def test_the_bandwidth_of_a_pair_that_may_take_a_tree_is_not_that_of_a_ring() -> None:
    assert found(replace(PAIR, algo="auto")) is None


def test_a_figure_at_full_power_says_nothing_of_a_board_under_a_lower_limit() -> None:
    assert found(replace(GEMM, watts=700)) == "h100-bf16" and found(replace(GEMM, watts=500)) is None
    # But no one computes faster for being throttled: the peak holds.
    assert RULES.peak(replace(GEMM, watts=500)) == RULES.peak(GEMM)


def test_the_name_of_a_model_is_a_whole_word() -> None:
    assert is_model("NVIDIA B200", "B200") and not is_model("NVIDIA GB200", "B200")
    assert is_model("NVIDIA A100-SXM4-80GB", "a100") and not is_model("NVIDIA GH200 480GB", "H200")


def test_a_site_changes_a_figure_takes_one_out_and_adds_its_own(tmp_path: Path) -> None:
    folder = site(tmp_path, """
        published:
        - {id: h100-node, value: 470}
        - {id: h100-node-ring, enabled: false}
        - {id: ours, figure: tflops_fp16, gpu: L40S, value: 300, source: ours}
        sources: {ours: measured here}
        jitter: {gloo: 4}
        age: {days: 7}
        """)
    rules = load_burnin([packaged(), folder])
    assert (rules.value(IN_NODE) or (0,))[0] == 470 and rules.value(replace(IN_NODE, algo="ring")) is None
    assert (rules.value(Setting("tflops_fp16", "node", "NVIDIA L40S")) or (0,))[0] == 300
    assert rules.jitter == {"nccl": 1.5, "gloo": 4} and rules.days == 7 and rules.share == RULES.share
    assert load_ruleset([packaged(), folder]).rules      # it is no file of rules


@pytest.mark.parametrize(("text", "said"), [
    ("[]", "burnin.yaml:1:1: expected a map of sources, published"),
    ("publishd: []", "burnin.yaml:1:1: unknown key 'publishd'; did you mean 'published'?"),
    ("published: {}", "burnin.yaml:1:12: published: expected a list, got a map"),
    ("published: [{id: x, value: 3}]", "burnin.yaml:1:13: published: x: figure is missing"),
    ("published: [{id: x, figure: tflops_bf16, gpu: H100, source: mamf}]",
     "value is missing: expected a value, a peak, or both"),
    ("published: [{id: x, figure: tflops_bf16, value: 3, source: mamf}]", "gpu is missing"),
    ("published: [{id: x, figure: tflops_bf16, gpu: H100, value: 3, source: mafm}]",
     "there is no 'mafm' in sources; did you mean 'mamf'?"),
    ("published: [{id: h100-node, value: -3}]",
     "burnin.yaml:1:36: published: h100-node: value: expected a number from 1e-06"),
    ("published: [{id: h100-node, valeu: 3}]", "unknown key 'valeu'; did you mean 'value'?"),
    ("published: [{id: h100-node, nodes: 8-2}]",
     "nodes: expected a number of nodes such as 2, or a range such as 2-8"),
    ("published: [{id: h100-node, figure: tflops_bf61}]", "did you mean 'tflops_bf16'?"),
    ("published: [{id: h100-bf16, algo: [ring]}]", "algo: is for busbw_gb_s only"),
    ("published: [{id: x, value: 1}, {id: x, value: 2}]", "id x is defined twice; the first is at line 1"),
    ("counters: [{id: x, counters: [a], why: y, source: z}]", "expected either allow or allow_per_hour"),
    ("counters: [{id: symbols, allow: 3}]", "expected either allow or allow_per_hour"),
    ("accept: {nccl: [busbw in all]}",
     "accept: nccl: expected a figure and a stage such as busbw_gb_s in all, got 'busbw in all'"),
    ("accept: {nccl: [busbw_gb_s in all, busbw_gb_s in everything]}",
     "burnin.yaml:1:36: accept: nccl: expected a figure and a stage such as busbw_gb_s in all"),
    ("accept: {nccl: all}", "accept: nccl: expected a list of what may pass unjudged"),
    ("accept: {mpi: []}", "unknown key 'mpi'"),
    ("learn: {least_share: 0}", "learn: least_share: expected a number from 0.1 to 1"),
    ("floors: {share: 2}", "burnin.yaml:1:17: floors: share: expected a number from 0.01 to 1, got 2"),
    ("jitter: {ncll: 2}", "jitter: unknown key 'ncll'; did you mean 'nccl'?"),
])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RulesError) as error:
        load_burnin([packaged(), site(tmp_path, text)])
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_folder_without_it_is_fine_and_none_at_all_is_not(tmp_path: Path) -> None:
    assert load_burnin([packaged(), tmp_path]) == RULES
    with pytest.raises(RulesError, match="no rules folder holds a burnin"):
        load_burnin([tmp_path])


@settings(max_examples=tries(40), deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
                        st.sampled_from(["id", "value", "published", "counters", "floors", "share", "nodes"]),
                        inner, max_size=4), max_leaves=20))
def test_whatever_a_site_writes_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, thing: object,
) -> None:
    import yaml

    folder = tmp_path_factory.mktemp("site")
    (folder / "burnin.yaml").write_text(yaml.safe_dump(thing))
    try:
        load_burnin([packaged(), folder])
    except ConfigError as error:
        assert "\n" not in str(error)
