"""How to start nccl-tests in a node, or across nodes by srun: argv and environment, no shell.

The process gets only the variables that it needs, so that muster alone sets NCCL_* and NCCL_TESTS_*. Newer
options (-T, -I) are used where --help names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from inventory.errors import UsageError
from inventory.text import short

KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME",
        "OPAL_PREFIX", "SLURM_CONF")
# UCX and hcoll of a GPU-aware MPI would communicate beside NCCL.
ALWAYS: Mapping[str, str] = MappingProxyType({"CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                                              "OMPI_MCA_coll_hcoll_enable": "0"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,120}")
_OPTION = re.compile(r"\[-([A-Za-z]),--")


@dataclass(frozen=True)
class Test:
    """One collective at one size, so that its average is of that size alone. `checks` are verified
    iterations, beside the timed ones. After `seconds` the test gives up by itself."""

    program: str
    size: int
    iterations: int = 20
    warmup: int = 5
    checks: int = 1
    cycles: int = 1
    seconds: int = 300
    type: str = "float"


@dataclass(frozen=True)
class LaunchCommand:
    """Words and the whole environment of a process; `ranks` is how many it has to run on."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    ranks: int


def options(usage: str) -> frozenset[str]:
    """The letters of the options that this text of --help names."""
    return frozenset(_OPTION.findall(usage))


def environment(inherited: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a run: needed variables of the inherited one, constants, and this run's settings."""
    for name in settings:
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"{short(name)} is no name of an environment variable")
    kept = {name: inherited[name] for name in KEPT if name in inherited}
    return {**kept, **ALWAYS, **settings}


def words(test: Test, known: frozenset[str], gpus: int) -> tuple[str, ...]:
    """Program and options for so many GPUs a process."""
    made = [test.program, "-b", str(test.size), "-e", str(test.size), "-g", str(gpus), "-n",
            str(test.iterations), "-w", str(test.warmup), "-c", str(test.checks), "-d", test.type, "-o",
            "sum"]
    if test.cycles > 1 and "N" in known:
        made += ["-N", str(test.cycles)]
    if "T" in known:
        made += ["-T", str(test.seconds)]
    if "I" in known:
        made += ["-I", "1"]
    return tuple(made)


def in_node(test: Test, known: frozenset[str], gpus: int, variables: Mapping[str, str]) -> LaunchCommand:
    """One process for all GPUs of the node it is started on; needs no MPI."""
    return LaunchCommand(words(test, known, gpus), variables, gpus)


def by_srun(test: Test, known: frozenset[str], nodes: Sequence[str], gpus: int, variables: Mapping[str, str],
            extra: Sequence[str] = ()) -> LaunchCommand:
    """One process a GPU, started by Slurm, with `extra` words for srun; a rank that ends ends all."""
    _check(nodes, gpus)
    return LaunchCommand((
        "srun", "--mpi=pmix", f"--nodes={len(nodes)}", f"--nodelist={','.join(nodes)}",
        f"--ntasks={len(nodes) * gpus}",
        f"--ntasks-per-node={gpus}", f"--gpus-per-node={gpus}", "--distribution=block",
        "--kill-on-bad-exit=1", "--unbuffered",
        "--input=none", "--export=ALL", "--job-name=muster-burnin",
        f"--time={test.seconds * max(1, test.cycles) // 60 + 2}", *extra,
        "--", *words(test, known, 1),
    ), variables, len(nodes) * gpus)


def _check(nodes: Sequence[str], gpus: int) -> None:
    if not nodes or gpus < 1:
        raise UsageError("nccl-tests needs at least one node and one GPU in it")
    # Some characters have a meaning in the lists of srun.
    for node in nodes:
        if not _NAME.fullmatch(node):
            raise UsageError(f"{short(node)} cannot be passed to srun: it is no host name")
    if len(set(nodes)) < len(nodes):
        raise UsageError("nccl-tests was asked to run twice on one node")
