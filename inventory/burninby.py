"""The inventory's key `burnin`: what holds for every burn-in of this site.

    burnin: {max_kw: 400}                           # the limit for all nodes that run at once
    burnin: {max_kw: 400, domain_kw: 40}            # and for the nodes in one power domain (`power:`)
    burnin: {head: 10.1.0.1}                        # where nodes reach this machine
    burnin: {params: {allreduce.bytes: 1048576}}    # other sizes and times of the work, by its kind and name
    burnin: {nccl_tests: /opt/nccl-tests/build}     # where all_reduce_perf is; default: the nodes' PATH
    burnin: {setup_s: 300}      # time for NCCL to set up a group of ranks, plus 0.1 s for each rank [60]
    burnin: {profile: roce}     # NCCL settings for a kind of fabric: roce, efa, gib (rules/burnin.yaml)
    burnin: {env: {NCCL_IB_TC: 106}}    # these override the profile; `inventory.ncclenv` lists the names
    burnin: {storage: [/scratch, {path: /lustre/x, bytes: 4GiB}]}   # mounts that each node writes and reads
    burnin: {storage: [{path: /home, folder: admin/burnin}]}        # a folder, if only that is writable

A node has its own settings under the same key: {python: [/opt/torch/bin/python3], ranks: 8, watts: 10200}.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

from inventory.entry import check_keys, described, host
from inventory.errors import InventoryError, Mark
from inventory.located import LocatedList, LocatedMap
from inventory.model import SiteBurnIn, StorageMount
from inventory.ncclenv import checked

_NAME = re.compile(r"[a-z]{1,32}\.[a-z][a-z0-9_]{0,63}")
_PROFILE = re.compile(r"[a-z][a-z0-9-]{0,31}")
_PATH = re.compile(r"/|(/[^/\0]{1,255}){1,32}")
_BELOW = re.compile(r"[^/\0]{1,255}(/[^/\0]{1,255}){0,31}")
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(MiB|GiB|TiB)")
_UNITS = {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_MOST_MOUNTS = 16
_MOST_KW = 1_000_000
_MOST_SETUP_S = 86_400
_KEYS = ("max_kw", "domain_kw", "head", "params", "nccl_tests", "setup_s", "profile", "env", "storage")


def read_burnin(document: LocatedMap) -> SiteBurnIn:
    """What the key says, empty without it; names of `params` are not checked. Raises InventoryError."""
    if "burnin" not in document:
        return SiteBurnIn()
    found = document["burnin"]
    if not isinstance(found, LocatedMap):
        raise InventoryError(f"burnin is {described(found)}, expected a map with {', '.join(_KEYS)}",
                             document.value_marks["burnin"])
    check_keys(found, _KEYS, "burnin")
    most, domain = (_number(found, key, _MOST_KW, "a number of kilowatts above 0, such as 400")
                    for key in ("max_kw", "domain_kw"))
    setup = _number(found, "setup_s", _MOST_SETUP_S,
                    f"a number of seconds above 0 and at most {_MOST_SETUP_S}, such as 300")
    return SiteBurnIn(most, domain, _head(found), MappingProxyType(_params(found)), _folder(found), setup,
                      _profile(found), MappingProxyType(_env(found)), _storage(found))


def _number(found: LocatedMap, key: str, most: float, expected: str) -> float | None:
    value = found.get(key)
    if key in found and (isinstance(value, bool) or not isinstance(value, (int, float))
                         or not 0 < value <= most):
        raise _wrong(found, key, expected)
    return None if value is None else float(value)


def _head(found: LocatedMap) -> str | None:
    if "head" not in found:
        return None
    value = found["head"]
    if not isinstance(value, str) or (named := host(value)) is None:
        raise _wrong(found, "head", "a host name or an IP address at which nodes reach this machine")
    return named


def _folder(found: LocatedMap) -> str | None:
    if "nccl_tests" not in found:
        return None
    value = found["nccl_tests"]
    if (not isinstance(value, str) or not value.startswith("/") or len(value) > 1024
        or not value.isprintable()):
        raise _wrong(found, "nccl_tests",
                     "the folder of all_reduce_perf on the nodes, such as /opt/nccl-tests/build")
    return value.rstrip("/") or "/"


def _profile(found: LocatedMap) -> str | None:
    value = found.get("profile")
    if "profile" in found and (not isinstance(value, str) or not _PROFILE.fullmatch(value)):
        raise _wrong(found, "profile", "the name of a profile of rules/burnin.yaml, such as roce")
    return value


def _env(found: LocatedMap) -> dict[str, str]:
    if "env" not in found:
        return {}
    given = found["env"]
    if not isinstance(given, LocatedMap):
        raise _wrong(found, "env", "a map of NCCL settings, such as {NCCL_IB_TC: 106}")
    values: dict[str, str] = {}
    for name, value in given.items():
        try:
            values.update((checked(name, value, inventory=True),))
        except ValueError as error:
            raise InventoryError(f"burnin.env: {error}", _at(given, name)) from None
    return values


def _storage(found: LocatedMap) -> tuple[StorageMount, ...]:
    if "storage" not in found:
        return ()
    given = found["storage"]
    if not isinstance(given, LocatedList) or len(given) > _MOST_MOUNTS:
        raise _wrong(found, "storage", f"a list of at most {_MOST_MOUNTS} mounts, such as [/scratch, {{path: "
                                       f"/lustre/x, bytes: 4GiB}}]")
    mounts: list[StorageMount] = []
    for at, item in enumerate(given):
        where, mark = f"burnin.storage[{at}]", given.value_marks[at]
        size, path, folder = None, item, ""
        if isinstance(item, LocatedMap):
            check_keys(item, ("path", "bytes", "folder"), where)
            path = item.get("path")
            if "folder" in item:
                folder = _below(item["folder"], f"{where}.folder", item.value_marks["folder"])
            if "bytes" in item:
                size = _bytes(item["bytes"], f"{where}.bytes", item.value_marks["bytes"])
        if (not isinstance(path, str) or not _PATH.fullmatch(path) or {"..", "."} & set(path.split("/"))
            or not path.isprintable()):
            raise InventoryError(
                f"{where} is {described(path)}, expected the full path of a mount, such as /scratch", mark)
        if path in [mount.path for mount in mounts]:
            raise InventoryError(f"{where}: {path} is listed twice", mark)
        mounts.append(StorageMount(path, size, folder))
    return tuple(mounts)


def _below(value: Any, where: str, mark: Mark) -> str:
    if (not isinstance(value, str) or not _BELOW.fullmatch(value) or {"..", "."} & set(value.split("/"))
        or not value.isprintable()):
        raise InventoryError(f"{where} is {described(value)}, expected a folder's path relative to its "
                             "mount, such as admin/burnin", mark)
    return value


def _bytes(value: Any, where: str, mark: Mark) -> int:
    text = _SIZE.fullmatch(value) if isinstance(value, str) else None
    found = round(float(text[1]) * _UNITS[text[2]]) if text is not None else value
    if isinstance(found, bool) or not isinstance(found, int) or not _UNITS["MiB"] <= found <= _UNITS["TiB"]:
        raise InventoryError(
            f"{where} is {described(value)}, expected a size from 1MiB to 1TiB, such as 4GiB", mark)
    return found


def _params(found: LocatedMap) -> dict[str, Any]:
    if "params" not in found:
        return {}
    params = found["params"]
    if not isinstance(params, LocatedMap):
        raise _wrong(found, "params", "a map of parameters by name")
    for name, value in params.items():
        if not _NAME.fullmatch(name):
            raise InventoryError(
                f"burnin.params: {described(name)} is not a parameter, expected one such as allreduce.bytes",
                params.key_marks[name])
        if isinstance(value, bool) or not isinstance(value, (int, float, str)) or len(str(value)) > 256:
            raise InventoryError(f"burnin.params.{name} is {described(value)}, expected a number or a word",
                                 _at(params, name))
    return dict(params)


def _wrong(found: LocatedMap, key: str, expected: str) -> InventoryError:
    return InventoryError(f"burnin.{key} is {described(found[key])}, expected {expected}", _at(found, key))


def _at(found: LocatedMap, key: str) -> Mark:
    mark: Mark = found.value_marks[key]
    return mark
