"""Who may take part: a node whose GPUs PyTorch does not all see is not burnt in with what is left."""

from __future__ import annotations

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.ruleset.sku import Sku
from provisioning.burnin.run import lacks


@pytest.fixture(scope="module")
def skus() -> dict[str, Sku]:
    return dict(load_ruleset([packaged()]).skus)


@pytest.mark.parametrize(
    ("sku", "seen", "wanted"), [("hgx-h100", 8, 8), ("cpu-only", 0, 2), (None, 0, 2), (None, 8, 8)])
def test_a_node_with_what_is_wanted_and_one_of_cpus_alone_take_part(
    skus: dict[str, Sku], sku: str | None, seen: int, wanted: int,
) -> None:
    assert lacks(skus[sku] if sku else None, seen, wanted) == ""


@pytest.mark.parametrize(("sku", "seen"), [("hgx-h100", 7), ("hgx-h100", 0), (None, 7)])
def test_a_node_with_fewer_gpus_than_wanted_is_left_out_and_never_measured_on_its_cpu(
    skus: dict[str, Sku], sku: str | None, seen: int,
) -> None:
    assert (lacks(skus[sku] if sku else None, seen, 8)
            == f"PyTorch sees {seen} GPUs there, and 8 are to be burnt in; see: muster check")
