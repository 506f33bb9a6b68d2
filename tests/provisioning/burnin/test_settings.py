"""NCCL settings of a site: from the inventory, a SKU and their profiles to every all-reduce, the document and
the certificate."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.burnin import stages
from healthcheck.burnin.model import BurnInStage, TaskKind
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.ruleset.sku import BurninEnv, Sku
from inventory.errors import RulesError, UsageError
from inventory.model import Node, SiteBurnIn
from provisioning.burnin.request import request, settings
from tests.healthcheck.burnin.made import RULES
from tests.provisioning.burnin.test_stages import places, work


def sku(text: str, folder: Path) -> Sku:
    (folder / "sku").mkdir()
    (folder / "sku" / "ours.yaml").write_text(f"sku: ours\ninherit: hgx-h100\n{text}\n")
    return load_ruleset([packaged(), folder]).skus["ours"]


def test_the_inventory_goes_before_the_sku_and_either_before_its_profile() -> None:
    ours = Sku("ours", "", {}, frozenset(), "",
               burnin=BurninEnv("roce", (("NCCL_IB_TC", "96"), ("NCCL_IB_SL", "3"))))
    assert settings(None, SiteBurnIn(), RULES) == {}
    assert settings(None, SiteBurnIn(profile="roce"), RULES) == {"NCCL_IB_TC": "106"}
    assert settings(ours, SiteBurnIn(), RULES) == {"NCCL_IB_TC": "96", "NCCL_IB_SL": "3"}
    assert settings(ours, SiteBurnIn(profile="roce", env={"NCCL_IB_SL": "5"}), RULES) == {
        "NCCL_IB_TC": "106", "NCCL_IB_SL": "5"}
    with pytest.raises(
        UsageError, match="burnin: profile spectrum: no such profile; there are efa, gib, roce"):
        settings(None, SiteBurnIn(profile="spectrum"), RULES)


def test_a_sku_says_how_its_machines_train(tmp_path: Path) -> None:
    assert sku("burnin: {profile: roce, env: {NCCL_IB_QPS_PER_CONNECTION: 4}}", tmp_path).burnin == BurninEnv(
        "roce", (("NCCL_IB_QPS_PER_CONNECTION", "4"),), nvls=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [("burnin: {env: {NCCL_NET_PLUGIN: /tmp/evil.so}}",
      "NCCL_NET_PLUGIN loads code, or reads or writes a file: it is allowed in the inventory only"),
     ("burnin: {env: {NCCL_DEBUG_FILE: /etc/cron.d/x}}", "NCCL_DEBUG_FILE loads code"),
     ("burnin: {env: {LD_PRELOAD: x}}", "'LD_PRELOAD' is not an allowed variable"),
     ("burnin: {env: 3}", "burnin: env: expected a map"),
     ("burnin: 3", "burnin: expected a map with profile, env and nvls"),
     ("burnin: {envs: {}}", "burnin: expected a map with profile, env and nvls"),
     ("burnin: {nvls: 2}", "burnin: nvls: expected true or false"),
     ("burnin: {profile: 3}", "burnin: profile: expected the name")])
def test_no_sku_loads_code_or_writes_a_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RulesError, match=r"ours.yaml:\d+:\d+: ") as error:
        sku(text, tmp_path)
    assert said in str(error.value)


def test_nor_does_a_profile(tmp_path: Path) -> None:
    (tmp_path / "burnin.yaml").write_text(
        "env_profiles: [{id: mine, env: {NCCL_TUNER_PLUGIN: x}, source: me}]\n")
    with pytest.raises(RulesError, match="env_profiles: mine: env: expected a map of NCCL settings"):
        request(
            [Node("n1")], None, load_ruleset([packaged()]), [packaged(), tmp_path], "quick", None, "hgx-h100")


def test_whatever_talks_through_nccl_runs_with_them_and_no_other_work_does() -> None:
    there = places(4)
    env = {place.node: {"NCCL_IB_TC": "106", "NCCL_NET": ""} for place in there}
    steps = stages.planned(there, stages.replace(work(there), env=env),
                           frozenset(BurnInStage) - {BurnInStage.RAIL, BurnInStage.SOAK})
    alone = [task for step in steps for task in step.tasks if task.stage is BurnInStage.NODE]
    assert {task.kind: dict(task.environment) for task in alone} == {
        **{kind: {} for kind in stages.ALONE}, TaskKind.ALLREDUCE: {"NCCL_IB_TC": "106"},
        TaskKind.TRAIN: {"NCCL_IB_TC": "106"}, TaskKind.SIZES: {**stages.LOGGED, "NCCL_IB_TC": "106"}}
