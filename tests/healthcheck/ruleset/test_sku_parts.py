"""`burnin:` and `limits:` of a SKU: what they give, and a line with its place for another value."""

from __future__ import annotations

import re
from typing import Any

import pytest

from healthcheck.ruleset.sku import BurninEnv, Sku
from healthcheck.ruleset.skuburnin import read_burnin
from healthcheck.ruleset.skulimits import limited, read_limits
from inventory.errors import Mark, RulesError
from inventory.located import parse_yaml
from inventory.model import NO_LIMITS, Node, StageLimits
from inventory.ncclenv import FROM_INVENTORY

MARK = Mark("sku.yaml", 7, 1)
BASE = BurninEnv("large", (("NCCL_ALGO", "Ring"),), False)


def located(text: str) -> Any:
    """A value of a file, which knows its places."""
    return parse_yaml(f"value: {text}\n", "sku.yaml", error=RulesError)["value"]


def test_settings_for_burn_in_are_laid_over_those_of_the_sku_above() -> None:
    assert read_burnin({}, MARK, BASE) == BASE
    assert read_burnin({"profile": "small", "nvls": True, "env": {"NCCL_PROTO": "LL"}}, MARK,
                       BASE) == BurninEnv(
                           "small", (("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL")), True)


def test_what_loads_code_or_names_a_file_is_the_inventorys_alone() -> None:
    for name in sorted(FROM_INVENTORY):
        with pytest.raises(RulesError, match=f"burnin: env: {name} loads code, or reads or writes a file"):
            read_burnin({"env": {name: "1"}}, MARK, BASE)


@pytest.mark.parametrize(("value", "line", "words"), [
    ("[]", 7, "burnin: expected a map with profile, env and nvls"),
    ("{profil: x}", 7, "burnin: expected a map with profile, env and nvls"),
    ("{nvls: 1}", 7, "burnin: nvls: expected true or false, got 1"),
    ("{profile: 3}", 7, "burnin: profile: expected the name of a profile"),
    ("{env: [a]}", 7, "burnin: env: expected a map of NCCL settings, got a list"),
    ("{env: {PATH: x}}", 1, "burnin: env: ")])
def test_a_mistake_in_settings_for_burn_in_is_one_line(value: str, line: int, words: str) -> None:
    with pytest.raises(RulesError, match=re.escape(words)) as raised:
        read_burnin(located(value), MARK, BASE)
    assert f"sku.yaml:{line}:" in str(raised.value)


def test_limits_are_laid_over_those_of_the_sku_above() -> None:
    base = StageLimits(connect=5.0)
    assert read_limits({}, MARK, base) == base
    assert read_limits({"connect": 7, "auth": "2m"}, MARK, base) == StageLimits(connect=7.0, auth=120.0)


@pytest.mark.parametrize(("value", "words"), [
    ("[]", "limits: expected a map with "),
    ("{conect: 3}", "limits: unknown key 'conect'; did you mean 'connect'?; known: "),
    ("{connect: soon}", "limits: connect: expected ")])
def test_a_mistake_in_limits_is_one_line_at_its_place(value: str, words: str) -> None:
    for found, line in ((located(value), 7 if value == "[]" else 1),
                        (dict(located(value)) if value != "[]" else [], 7)):
        with pytest.raises(RulesError, match=re.escape(words)) as raised:
            read_limits(found, MARK, NO_LIMITS)
        assert f"sku.yaml:{line}:" in str(raised.value)


def test_a_nodes_limits_are_those_given_then_its_own_then_its_skus() -> None:
    skus = {"a": Sku("a", "", {}, frozenset(), "a.yaml",
                     limits=StageLimits(connect=1.0, auth=1.0, login=1.0))}
    own = StageLimits(connect=2.0, auth=2.0)
    given = StageLimits(connect=3.0)
    whole = StageLimits(connect=3.0, auth=2.0, login=1.0)
    (node,) = limited([Node("n1", sku="a", limits=own)], skus, None, given)
    assert node.limits == whole
    (by_default, other) = limited([Node("n2", limits=own), Node("n3", sku="gone", limits=own)],
                                  skus, "a", given)
    assert by_default.limits == whole and other.limits == StageLimits(connect=3.0, auth=2.0)
    bare = Node("n4", limits=own)
    assert limited([bare], skus, None, NO_LIMITS) == (bare,) and limited([bare], {}, "a",
                                                                         NO_LIMITS)[0] is bare
