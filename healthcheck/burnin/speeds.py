"""How fast an all-reduce should be, and when to give it up: from its floor, else its ports' rate.

A task slower than its floor must come to its end, to be judged; only a far slower one is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from healthcheck.burnin.floors import Floors
from healthcheck.burnin.model import BurnInStage, Participant, Task
from healthcheck.burnin.params import PARAMS
from healthcheck.burnin.published import BUSBW, Setting, learning_stage
from healthcheck.burnin.setting import SkuHardware, algo_of, ways_of

GB = 1e9
SOUND = 0.8             # of the ports' rate, for a ring between nodes at large sizes
USUAL = 100 * GB        # bytes a second of bus bandwidth, where nothing else is known
LEAST_INSIDE = 2 * GB   # in a node without NVLink, through the host's memory
LEAST_BETWEEN = GB / 2  # between nodes, about half of a 10 Gb/s port
SLOWER = 3              # factor below a floor or rate at which a task is given up


@dataclass(frozen=True)
class Speed:
    """Bytes a second of bus bandwidth: what is expected, and the least with which a task is let finish."""

    usual: float = USUAL
    least: float = LEAST_BETWEEN


@dataclass(frozen=True)
class Speeds:
    """Expected speeds from floors and SKUs. `hardware` is by SKU."""

    floors: Floors | None = None
    hardware: Mapping[str, SkuHardware] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, task: Task, places: Mapping[str, Participant]) -> Speed:
        """That of a task's all-reduces."""
        there = [places[node] for node in task.nodes]
        first = self.hardware.get(there[0].sku or "", SkuHardware())
        inside, nics, gbps = ways_of(task, there, self.hardware)
        nics = nics if inside else max(1, nics)
        size = int(task.params.get("bytes", PARAMS["allreduce"]["bytes"][0]))
        setting = Setting(BUSBW, task.stage.value, first.gpu, round(len(task.seats) / len(there)), len(there),
                          nics, gbps, size, algo_of(task), nvlink=inside)
        floor = self._floor(setting)
        if floor:
            return Speed(floor, floor / SLOWER)
        if gbps:
            return Speed(SOUND * nics * gbps / 8 * GB, SOUND * nics * gbps / 8 * GB / SLOWER)
        return Speed(least=LEAST_INSIDE if inside else LEAST_BETWEEN)

    def _floor(self, setting: Setting) -> float:
        """The least floor that may apply: before a run the exact device, power limit and size are unknown."""
        if self.floors is None:
            return 0.0
        learned = [one.floor for one in self.floors.learned if one.setting.figure == BUSBW
                   and one.setting.stage == learning_stage(BurnInStage(setting.stage)).value
                   and one.nodes[0] <= setting.nodes <= one.nodes[1] and one.setting.gpus == setting.gpus
                   and one.setting.nvlink == setting.nvlink and one.setting.nics == setting.nics]
        found = self.floors.of(setting)
        return GB * (min(learned) if learned else found.least if found is not None else 0.0)
