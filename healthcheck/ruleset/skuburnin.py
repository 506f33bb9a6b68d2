"""Reads a SKU's `burnin:`: NCCL settings, and whether it has NVLS. It loads no code and touches no file."""

from __future__ import annotations

from typing import Any

from healthcheck.config.entry import kind_of
from healthcheck.ruleset.sku import BurninEnv
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap
from inventory.ncclenv import checked


def read_burnin(found: Any, mark: Mark, base: BurninEnv) -> BurninEnv:
    """Reads the value under `burnin`, at `mark`, over that of the SKU it inherits from; raises RulesError."""
    if not isinstance(found, dict) or found.keys() - {"profile", "env", "nvls"}:
        raise RulesError("burnin: expected a map with profile, env and nvls", mark)
    profile, nvls, env = found.get("profile",
                                   base.profile), found.get("nvls", base.nvls), found.get("env", {})
    if not isinstance(nvls, bool):
        raise RulesError(f"burnin: nvls: expected true or false, got {kind_of(nvls)}", mark)
    if profile is not None and not isinstance(profile, str):
        raise RulesError(
            f"burnin: profile: expected the name of a profile of burnin.yaml, got {kind_of(profile)}", mark)
    if not isinstance(env, dict):
        raise RulesError(f"burnin: env: expected a map of NCCL settings, got {kind_of(env)}", mark)
    values = dict(base.env)
    for name, value in env.items():
        try:
            values.update((checked(name, value, inventory=False),))
        except ValueError as error:
            raise RulesError(f"burnin: env: {error}",
                             env.value_marks[name] if isinstance(env, LocatedMap) else mark) from None
    return BurninEnv(profile, tuple(sorted(values.items())), nvls)
