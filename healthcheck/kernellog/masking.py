"""Makes a template of a line: what varies between boots, nodes and builds becomes `<*>`, the meaning stays.

Masked: addresses (memory, PCI, MAC, IP, SCSI), numbers and lists of them, sizes, times, dates, hex, UUIDs,
serials, versions, the numbers of devices, interfaces, CPUs, processes and jobs; and whole tails if builds
differ in words (MASKS says which and why). What a user chose in a line that quotes it is blanked first
(`healthcheck.kernellog.quoting`). Kept, as the meaning of the line: Xid and SXid numbers; systemd as process
1; numbers after words of CODES; negative numbers of up to four digits (errno ends at -4095); a link's width
(x8) and speed (GT/s, Gbps, Mbps); PCI ids ([10de:2330], they identify hardware); digits inside a name
(mlx5_core, i40e) and after the words of NAMED; the number in an 'NMI ... reason 2d'; every word, so
'corrected', 'Fatal', 'down'.

There is one placeholder, because one sample does not show a value's kind: a serial can be all digits, and so
can a hex number. A list is one `<*>` however long, so 8 CPUs and 224 give one template. Texts that differ in
more than what is masked never share a template: `*>` in a text becomes `**>`, and the characters that stand
for hidden digits are escaped. A template need not be its own template, but it comes back from a text that
`fill` makes of it. Most lines that differ in their digits alone share a template: one of them is masked for
all (`_resolve`). Without that cache a fleet's log costs forty times as much. Runs on nodes too:
Python 3.8, `re` alone, ASCII classes, linear patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from healthcheck.kernellog.quoting import blanked_all

LONGEST = 8192              # characters of a text that are read
HOLE = "<*>"
VERSION = 2                 # of the templates: another one means that baselines are learned again
_MOST_CACHED = 32_768       # texts and shapes whose template is cached
_LONGEST_CACHED = 400
_TOGETHER = 128             # texts masked at once: they fit the CPU's cache, and few need the rare masks
_LONGEST_COMPARED = 300     # characters of a template that are compared with others
_MOST_COMPARED = 8          # templates that are compared by their characters
_LEAST_SIMILAR = 0.5        # of their characters, for a template to count as similar


_DAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
# Name, needle, pattern, replacement, why. If the needle occurs the pattern is replaced, in this order. A 0
# stands for a number that is masked last, as one of a list with its neighbours.
MASKS: tuple[tuple[str, str, str, str, str], ...] = (
    ("alignment", "  ", r"  +", " ", "columns are padded by what stands in them"),
    ("kernel build", "Linux version ", r"Linux version [^\n]*", "Linux version 0",
     "host, compiler and date of every build differ"),
    ("command line", "ommand line: ", r"ommand line: [^\n]*", "ommand line: 0",
     "it names the kernel and the root disk"),
    ("parameters", 'parameters "', r'parameters "[^\n]*', 'parameters "0',
     "the same, in the kernel's own complaint"),
    ("clock", "Marking stable", r"Marking stable [^\n]*", "Marking stable 0", "its numbers have any sign"),
    ("calibration", "bogoMips", r"dropping (?:max|min) bogoMips estimate[^\n]*",
     "dropping bogoMips estimate 0", "which of several measurements is left out"),
    ("per-CPU allocation", "pcpu-alloc: ", r"pcpu-alloc: (?:\[[0-9]+\]|s[0-9])[^\n]*", "pcpu-alloc: 0",
     "by the number of processors"),
    ("CPU time", ": Consumed ", r"(?<=systemd\[[0-9]\]: )[^\n:]{1,120}: Consumed [^\n]{1,40}CPU time[^\n]*",
     "0: Consumed 0", "its units differ from boot to boot"),
    ("modules", "Modules linked in:", r"Modules linked in:[^\n]*", "Modules linked in: 0",
     "the order is that of loading"),
    ("machine check", "Bank ", r"(Bank [0-9]{1,3}: )[2367abef][0-9a-f]{15}(?![0-9a-f])", r"\1uncorrected 0",
     "bit 61 of a bank's status, the second of its first digit, says that the error was not corrected"),
    ("machine code", "Code: ", r"Code: [0-9a-f<][^\n]*", "Code: 0", "bytes"),
    ("builder", "@", r"\([A-Za-z0-9._-]{1,40}@[^)\n]{1,80}\)", "(0)", "who built a driver"),
    ("ACPI table", "(v", r"\(v[0-9]{2} [^)\n]{1,60}\)", "(0)",
     "the table's signature stays; revisions and compilers are the firmware's"),
    ("bus range", "bus ", r"bus (?<![A-Za-z]bus )[0-9a-f]{2}(?:-[0-9a-f]{2})?(?![0-9A-Za-z:])", "bus 0",
     "[bus 00-ff]"),
    ("serial", "erial",
     r"(?<=erial)( ?[Nn](?:umber|o\.?)| [Ii][Dd]|)([:=] ?|  ?)(?=[^ \n]{0,40}[0-9])[^ ,;)\n]{1,64}",
     r"\1\g<2>0",
         "a disk's, a board's"),
    ("process", ", name=", r"pid=[^,\n]{1,24}, name=[^,\n]{0,40}", "pid=0, name=0", "whose job met the Xid"),
    ("pointer", "(____ptrval____)", r"(?:0x)?\(____ptrval____\)", "0",
     "printed while it is too early to hash one"),
    ("partitions", ": p", r": p[0-9]{1,3}(?: p[0-9]{1,3})*", ": p0", "as many as the disk has"),
    ("disk", "sd", r"sd(?<![0-9A-Za-z_]sd)[a-z]{1,3}[0-9]{0,3}(?![0-9A-Za-z_])", "sd0",
     "sda, sdab1: in the order of discovery"),
    ("virtual disk", "vd", r"vd(?<![0-9A-Za-wyz_]vd)[a-z][0-9]{0,3}(?![0-9A-Za-z_])", "vd0", "vda1, xvdb"),
    ("veth", "veth", r"veth[0-9A-Za-z]{1,15}", "veth0", "a container's end of a wire: random"),
    ("bridge", "br-", r"br-(?<![A-Za-z]br-)[0-9a-f]{12}", "br-0", "Docker's: random"),
    ("calico", "cali", r"cali[0-9a-f]{11}", "cali0", "Calico's: random"),
    ("lxc", "lxc", r"lxc[0-9a-f]{8,14}", "lxc0", "Cilium's: random"),
    ("MAC name", "enx", r"enx[0-9a-f]{12}", "enx0", "systemd's name by address"),
    ("pod", "pod", r"pod[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}", "pod0", "Kubernetes' cgroup"),
    ("day", ":", rf"(?:{_DAYS}|{_MONTHS})(?:,? (?:{_MONTHS}))? {{1,2}}[0-9]{{1,2}} "
                 rf"[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?: [AP]M)?"
     r"(?: [A-Z]{3,4})?(?: [0-9]{4})?", "0", "when a driver was built"),
)


# Words after which a number stays, by their last four or three characters: a look-behind has a fixed width.
CODES = ("rror", "rrno", "[^A-Za-z]err", "[^A-Za-z]ret", "code", "Code", "atus", "sult", "ason", "gnal",
         "ense", "[^A-Za-z]sct", "synd", "type", "Bank")
CODES_SHORT = ("[^A-Za-z]rc", "[^A-Za-z]sc", "[Kk]ey")
# Names after which a number stays.
NAMED = ("ext", "EXT", "mlx", "IPv", "ipv", "raid", "RAID", "NFSv")
_HEX = "[0-9a-fA-F]"
_END = "(?![0-9A-Za-z])"


def _after_code() -> str:
    """Looks behind for a word of CODES, ' ', '=', ':', '(', ': ', ' (', ' = ' or ' : ', and a character."""
    ends = "".join(sorted({word[-1] for word in (*CODES, *CODES_SHORT)}))
    gaps = ("[ =:(]", r"(?:: | \()", "(?: [=:] )")
    return "(?:" + "|".join(
        f"(?<=[{ends}]{gap}.)(?:(?<=(?:{'|'.join(CODES)}){gap}.)|(?<=(?:{'|'.join(CODES_SHORT)}){gap}.))"
        for gap in gaps) + ")"


# Name, needle and pattern of what later masks must not take: its digits are hidden as control characters.
_KEPT = (
    ("PCI ids", ":", r"\[[0-9a-f]{4}:[0-9a-f]{4}\]"),
    ("speeds", "GT/s", r"[0-9](?<![0-9A-Za-z.].)[0-9]{0,3}(?:\.[0-9]{1,3})?(?= ?GT/s)"),
    ("link rates", "bps", r"[0-9](?<![0-9A-Za-z.].)[0-9]{0,6}(?:\.[0-9]{1,3})?(?= ?[MG]bps)"),
    ("driver's codes", "failed! (0x", r"0x(?<=failed! \(0x)[0-9a-f]{1,4}(?=:)"),
    ("NMI reasons", "reason ", r"reason [0-9a-f]{2}(?![0-9A-Za-z])"),
    ("process 1", "systemd[1]", r"systemd\[1\](?=: )"),
    ("Xids", "Xid (", r"Xid \([^)\n]{0,64}\): [0-9]{1,5}(?![0-9A-Za-z])"),
    ("codes", "",
     rf"[0-9](?<![0-9A-Za-z].){_after_code()}(?:[xX]{_HEX}{{1,8}}|{_HEX}{{0,7}})(?![0-9A-Za-z]|\.[0-9])"),
)
# What follows the first character of hex parts: a UUID; a PCI address; a MAC, GUID, IPv6, time; a PCI bus.
_PARTS = (
    rf"{_HEX}{{7}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}{_END}"
    rf"|{_HEX}{{0,7}}:{_HEX}{{2}}(?::{_HEX}{{2}})?\.[0-9]{_END}"
    rf"|{_HEX}{{0,3}}(?:::?{_HEX}{{1,4}}){{2,16}}{_END}"
    rf"|{_HEX}{{3,7}}:{_HEX}{{2}}{_END}"
)
# Hex without 0x that begins with a letter: in parts; the rest of a UUID; four, one of 0-9; eight; or all f.
_LETTERED = re.compile(
    rf"[a-fA-F](?<![0-9A-Za-z].)(?:{_PARTS}|{_HEX}{{3}}(?:-{_HEX}{{4}}){{0,2}}-{_HEX}{{12}}{_END}"
    rf"|(?=[a-fA-F]{{0,40}}[0-9]){_HEX}{{3,}}(?![0-9A-Za-z_])"
    rf"|{_HEX}{{7,}}(?![0-9A-Za-z_])|[fF]{{3,}}(?![0-9A-Za-z_]))")
_UNIT = "[KMGTPEk]i?B?"
_SIZE = f"(?: [KMGTPE]i?B{_END})?"
# What follows the first digit of a number alone: a date; parts; hex; a number with a unit; a device (0n1p1).
_ALONE = (
    rf"[0-9]{{3}}-[0-9]{{2}}-[0-9]{{2}}[T ][0-9][0-9:.,]{{4,20}}Z?"
    rf"|{_PARTS}|[0-9a-fA-FxX]*{_END}|[0-9]*{_UNIT}{_END}"
    r"|[0-9]*(?:[a-z]{1,3}[0-9]+){0,8}"
)
_AGAIN = (rf"(?:[.:/_*+@-]|, {{0,2}}#?| {{1,8}}#?|#)"
          rf"[0-9](?:[0-9a-fA-FxX]*{_END}|[0-9]*{_UNIT}{_END}|[0-9]*{_END})")
# A number after letters, unless small letters follow (i40e, mlx5_core), or it is one of NAMED, a link's
# width, or x86.
_NAMED = "".join(f"(?<!{name}.)" for name in NAMED)
_WITHIN = (
    rf"(?<=[A-Za-z].){_NAMED}(?!(?<=[ (]x.)[0-9]?{_END}|(?<=x8)6{_END})"
    r"[0-9]*(?:[A-Za-z]{1,3}[0-9]+){0,8}(?![0-9a-z]|_[a-z])"
)
_NUMBER = re.compile(
    rf"[0-9](?<![0-9].)(?:(?<![A-Za-z].)(?:(?<![ =:(]-.)|(?=[0-9a-fA-FxX]{{4}}))(?:{_ALONE})"
    rf"|{_WITHIN})"
    rf"{_SIZE}(?:{_AGAIN}{_SIZE})*")
_RESERVED = re.compile("[\n\x0f-\x19]")
_ESCAPED = {code: f"\x0f{chr(code + 64)}" for code in (10, *range(0x0F, 0x1A))}
_NUMERIC = "0" * 9         # longer than what is kept
_HIDDEN = {code: code - 0x20 for code in range(0x30, 0x3A)}
_SHOWN = {code - 0x20: code for code in range(0x30, 0x3A)}

# Only in these texts does it matter which digit it is: every other pattern here treats all digits the same.
_DIGIT_MATTERS = re.compile(r"systemd\[0\]: |Bank |failed! \(0x|0x\(____ptrval____\)|x00(?![0-9A-Za-z])")
_DIGIT = re.compile("[0-9]")
_ZEROED = bytes(48 if 48 <= code < 58 else code for code in range(256))

_cache: dict[str, str] = {}


@cache
def _masks() -> list[tuple[str, re.Pattern[str], str]]:
    """Compiled when the first log is read: most commands read none."""
    return [(needle, re.compile(pattern), to.replace("0", _NUMERIC)) for _, needle, pattern, to, _ in MASKS]


@cache
def _kept() -> list[tuple[str, re.Pattern[str]]]:
    return [(needle, re.compile(pattern)) for _, needle, pattern in _KEPT]


def template(text: str) -> str:
    """The template of one text."""
    return templates((text,))[0]


def templates(texts: Sequence[str]) -> list[str]:
    """The template of each text, in their order. Many at once cost less than one by one. Never raises."""
    if len(_cache) > _MOST_CACHED:
        _cache.clear()
    found = list(map(_cache.get, texts))
    if None not in found:
        return found    # type: ignore[return-value]
    new = list(dict.fromkeys([text for text, made in zip(texts, found) if made is None]))
    shapes = zeroed(new)
    cached = [_cache.get(shape) for shape in shapes]
    by_text: Mapping[str, str | None] = (dict(zip(new, cached)) if None not in cached
                                         else _resolve(new, shapes))
    return [by_text[text] if made is None else made for text, made in zip(texts, found)]  # type: ignore[misc]


def _resolve(new: Sequence[str], shapes: Sequence[str]) -> dict[str, str]:
    """The templates of texts that are not cached, some of whose shapes are not, either."""
    first: dict[str, str] = {}
    # Read once, because another thread may clear the cache.
    by_shape = {shape: made for shape, made in zip(shapes, map(_cache.get, shapes)) if made is not None}
    for text, shape in zip(new, shapes):
        if shape not in by_shape:
            first.setdefault(shape, text)
    found = _all_masked(list(first.values()))
    # One text's template is that of all of its shape where no digit stays, and none mattered.
    general = {shape: found[text] for shape, text in first.items()
               if _DIGIT.search(found[text]) is None and _DIGIT_MATTERS.search(shape) is None}
    by_shape.update(general)
    found.update(_all_masked([text for text, shape in zip(new, shapes)
                              if text not in found and shape not in by_shape]))
    for text, shape in zip(new, shapes):
        if text not in found:
            found[text] = by_shape[shape]
        # The template of one text alone must never be cached under a shape.
        if text != shape and len(text) <= _LONGEST_CACHED and len(_cache) <= _MOST_CACHED:
            _cache[text] = found[text]
    for shape, made in general.items():
        if len(shape) <= _LONGEST_CACHED and len(_cache) <= _MOST_CACHED:
            _cache[shape] = made
    return found


def zeroed(texts: Sequence[str]) -> list[str]:
    """The shape of each text: all its digits are 0. Most texts of one shape share a template."""
    block = "\n".join(texts).encode("utf-8", "surrogatepass").translate(_ZEROED).decode(
        "utf-8", "surrogatepass")
    shapes = block.split("\n")
    return (shapes if len(shapes) == len(texts)
            else [shape for text in texts for shape in ["\n".join(zeroed(text.split("\n")))]])


def _all_masked(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for start in range(0, len(texts), _TOGETHER):
        some = texts[start:start + _TOGETHER]
        found.update(zip(some, _masked(some)))
    return found


def _masked(texts: Sequence[str]) -> list[str]:
    texts = blanked_all(texts)
    block = "\n".join(texts)
    if len(block) > LONGEST or _RESERVED.search(block):
        texts = [text[:LONGEST] for text in texts]
        block = "\n".join([text.translate(_ESCAPED) if _RESERVED.search(text) else text for text in texts])
    block = "\n" + block       # gives the first text the line feed that the others have before them
    if "*>" in block:
        block = block.replace("*>", "**>")
    for needle, pattern, to in _masks():
        if needle in block:
            block = pattern.sub(to, block)
    hidden = 0
    for needle, pattern in _kept():
        if needle in block:
            block, found = pattern.subn(_hide, block)
            hidden += found
    block = _NUMBER.sub(HOLE, _LETTERED.sub(_NUMERIC, block))
    return (block.translate(_SHOWN) if hidden else block).split("\n")[1:]


def _hide(match: re.Match[str]) -> str:
    before, bracket, number = match[0].rpartition(")")      # of an Xid, not the PCI address
    return before + bracket + number.translate(_HIDDEN)


def nearest(made: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is most similar to `made`, or None: by words, then the best by characters."""
    from difflib import SequenceMatcher  # here: no node uses it
    from heapq import nsmallest

    words = set(made[:_LONGEST_COMPARED].split())
    shared = []
    for other in known:
        others = set(other[:_LONGEST_COMPARED].split())
        if not words.isdisjoint(others):
            shared.append((-len(words & others) / len(words | others), other))
    matcher = SequenceMatcher(None, "", made[:_LONGEST_COMPARED], autojunk=False)
    found: tuple[float, str] | None = None
    for _, other in nsmallest(_MOST_COMPARED, shared):
        matcher.set_seq1(other[:_LONGEST_COMPARED])
        similar = matcher.ratio()
        if similar >= _LEAST_SIMILAR and (found is None or similar > found[0]):
            found = similar, other
    return found[1] if found else None
