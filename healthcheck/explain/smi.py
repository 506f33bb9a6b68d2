"""Explains nvidia-smi -q output, XML or text, by the rules that need nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.explain import judging, smitext
from healthcheck.explain.model import Cause, RawExplanation
from healthcheck.explain.quoting import LineIndex
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.smi import SMI
from healthcheck.facts.values import Partial, Unmeasured, reading
from healthcheck.joblog.meaning import Sure
from healthcheck.model.recording import Capture, Outcome
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleset import Ruleset

LOOKED_FOR = (
    "ECC errors, remapped rows and retired pages", "what the driver asks for (reset, drain)",
    "temperatures, throttling and power", "PCIe width", "persistence mode", "the state of the NVLink fabric",
    "GPUs that nvidia-smi could not read",
)
CANNOT_SHOW = (
    "Xids (give a dmesg, or nvidia-bug-report.log.gz)", "how many GPUs the node should have, and which",
    "counters of single NVLinks", "whether a counter still grows",
)

_FACTS = frozenset({"gpus", "gpu_presence"})
_NO_SKU = "no SKU is named"
_WIDTH = "gpu-pcie-width"
_UNPRINTED = re.compile(r"it does not print ([\w/]{1,120})")
_READ_BY = "; read by nvidia-smi (gpu.nvml was not captured)"

# Patterns of the lines behind a rule's finding, as text and as XML.
_SAID: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {rule: re.compile(said, re.IGNORECASE) for rule, said in {
        "gpu-ecc-uncorrected": r"[DS]RAM[ _]Uncorrectable[^\n]{0,60}[:>] ?[1-9]",
        "gpu-ecc-uncorrected-lifetime": r"[DS]RAM[ _]Uncorrectable[^\n]{0,60}[:>] ?[1-9]",
        "gpu-ecc-corrected": r"[DS]RAM[ _]Correctable[^\n]{0,60}[:>] ?[1-9]",
        "gpu-sram-threshold": r"SRAM[ _]Threshold[ _]Exceeded[^\n]{0,40}Yes",
        "gpu-row-remap-failed": r"Remapping Failure Occurred[^\n]{0,20}Yes|remapped_row_failure>Yes",
        "gpu-row-remap-pending": r"\n +Pending +: Yes|remapped_row_pending>Yes",
        "gpu-pages-pending": r"Pending Page Blacklist[^\n]{0,40}Yes|pending_retirement>Yes",
        "gpu-persistence": r"Persistence[ _]Mode[^\n]{0,40}Disabled",
        _WIDTH: r"Current {1,40}: \d{1,2}x|<current_link_width>",
        "gpu-recovery-action": r"(?:Reset[ _]Required|Drain[ _]and[ _]Reset[ "
        r"_]Recommended)[^\n]{0,20}Yes|Recovery[ _]Action[^\n]{0,60}",
        "gpu-slowdown-hw": r"HW[ _]Slowdown[ >][^\n]{0,40}\bActive",
        "gpu-temperature": r"GPU Current Temp|<gpu_temp>",
        "gpu-temperature-slowdown": r"GPU Current Temp|<gpu_temp>",
        "gpu-memory-temperature": r"Memory Current Temp|<memory_temp>",
    }.items()})


def explain(text: str, lines: LineIndex, ruleset: Ruleset, now: float, start: int = 0) -> RawExplanation:
    """What is wrong with the GPUs of this log, which begins at `start` in the file."""
    xml = text if "<nvidia_smi_log" in text else smitext.as_xml(text)
    recording = judging.look({SMI.id: Capture(Outcome.DONE, exit=0, bytes=len(xml), text=xml)}, now)
    rules = [rule for rule in ruleset.rules if set(rule.fact_names) <= _FACTS and not rule.checked.fleet]
    report = judging.report(recording, ruleset, rules)
    value = build_fact(FACTS["gpus"], Captures(recording))
    unread = [value.reason] if isinstance(value, (Partial, Unmeasured)) else []
    found = value.value if isinstance(value, Partial) else value
    gpus: tuple[Gpu, ...] = found if isinstance(found, tuple) else ()
    names = {gpu.name: gpu for gpu in gpus}
    causes = [_located(cause, names, lines, start)
              for cause in judging.causes(report, {rule.id: rule for rule in rules}, lambda _: ())]
    causes += [_located(cause, names, lines, start) for rule in rules if rule.id == _WIDTH for gpu in gpus
               for cause in _narrow(gpu, rule)]
    reasons = [reason for reason in judging.unjudged(report) if _NO_SKU not in reason] if gpus else []
    unprinted = dict.fromkeys(name for reason in reasons for name in _UNPRINTED.findall(reason))
    unread += [reason for reason in reasons if not _UNPRINTED.search(reason) and reason not in unread]
    model = reading(gpus[0], "model") if gpus else None
    about = f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}" + (f" ({model})" if isinstance(model, str) else "")
    cannot_show = (f"what this nvidia-smi does not print ({', '.join(unprinted)})",) if unprinted else ()
    return RawExplanation(causes, [reason.replace(_READ_BY, "") for reason in unread], about, cannot_show)


def _narrow(gpu: Gpu, rule: Rule) -> list[Cause]:
    """A PCIe link with too few lanes, which unlike its speed do not vary with the load.
    The rule itself needs the SKU's number."""
    width, most = reading(gpu, "pcie_width"), reading(gpu, "pcie_width_max")
    if not isinstance(width, int) or not isinstance(most, int) or width >= most:
        return []
    return [Cause(gpu.name, f"Its PCIe link has {width} lanes of {most}", Sure.CERTAIN, rule.severity,
                  rule.owner, rule.remedy, rule.id)]


def _located(cause: Cause, gpus: dict[str, Gpu], lines: LineIndex, start: int) -> Cause:
    """The cause with the PCI address of its GPU, and its lines where known."""
    gpu = next((known for name, known in gpus.items() if cause.subject == name
                or cause.subject.startswith(f"{name} ")), None)
    pci = reading(gpu, "pci") if gpu is not None else None
    if not isinstance(pci, str):
        return cause
    head = re.compile(rf"[0-9a-f]{{4,8}}{re.escape(pci[4:])}", re.IGNORECASE).search(lines.text, start)
    places = [head.start()] if head is not None else []
    if (head is not None and cause.by in _SAID
        and (line := _SAID[cause.by].search(lines.text, head.end())) is not None):
        # A pattern that begins with the line before it.
        places.append(line.start() + (line[0][0] == "\n"))
    return replace(cause, subject=f"{cause.subject}, PCI {pci}",
                   quotes=tuple(lines.quote(place) for place in places))
