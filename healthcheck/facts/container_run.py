"""What a container sees of the node's GPUs and RDMA devices: one is run, under a lease, from an image that
lies on the node.

Docker, nerdctl and podman are asked in this order; the first that holds the image runs it. Sources:
docs.docker.com, `docker container run` (--gpus, --device, --pull); docs/gpu.md of containerd/nerdctl;
podman-run(1): GPUs by a CDI device, for its --gpus does nothing (elezar in NVIDIA/nvidia-container-runtime
issue 190). NVIDIA Container Toolkit, CDI support: a node that uses CDI alone needs no hook, and `--gpus`
needs one.
"""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.values import Fact, Unmeasured, Unread
from healthcheck.model.probes import Effect, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

# The site chooses the image by tagging it so on the node; a rule cannot. Nothing is pulled.
CHECK_IMAGE = "muster/gpu-check"
RUN_S = 90
# What both sides list in the same way. A device file is opened, for a container's cgroup denies that and not
# its sight. No file of /dev/infiniband but these two kinds is opened: issm makes a port a subnet manager.
_LIST = """\
for f in /dev/nvidia[0-9]* /dev/nvidia-uvm /dev/infiniband/uverbs* /dev/infiniband/rdma_cm; do
if [ -c "$f" ] && ( : <"$f" ) 2>/dev/null; then echo "$0 opens $f"; fi
done
for f in /sys/class/infiniband/*; do if [ -e "$f" ]; then echo "$0 rdma ${f##*/}"; fi; done
"""
_INSIDE = f"{_LIST}nvidia-smi -L 2>&1\necho \"$0 ended $?\"\n"
# $1 lists, $2 is what runs inside, $3 the image. A container of ours that an earlier run had to leave is
# removed by its label. At the end of the time timeout(1) signals this shell, which ends the container.
_SCRIPT = """\
list=$1 inside=$2 image=$3
sh -c "$list" node
devices=
for f in /dev/infiniband/uverbs* /dev/infiniband/rdma_cm; do
  if [ -c "$f" ]; then devices="$devices --device $f"; fi
done
cdi=$(grep -ls nvidia.com/gpu /etc/cdi/* /var/run/cdi/*)
hook=$(command -v nvidia-container-runtime-hook || command -v nvidia-container-toolkit)
for client in docker nerdctl podman; do
  command -v $client >/dev/null || continue
  gpus="--gpus all" more=
  case $client in
  docker) set -- docker --host unix:///var/run/docker.sock; more=--init ;;
  *) set -- $client ;;
  esac
  if [ $client = podman ] || { [ -z "$hook" ] && [ -n "$cdi" ]; }; then gpus="--device nvidia.com/gpu=all"; fi
  held=$("$@" images -q "$image") || { echo "fails $client"; continue; }
  if [ -z "$held" ]; then echo "lacks $client"; continue; fi
  left=$("$@" ps -aq --filter label=muster.gpu-check)
  if [ -n "$left" ]; then "$@" rm -f $left >/dev/null; fi
  trap '"$@" kill muster-gpu-check >/dev/null 2>&1; exit 124' TERM
  echo "runs $client $gpus"
  "$@" run --rm --pull never --network host --name muster-gpu-check --label muster.gpu-check=1 \\
    $more $gpus $devices "$image" sh -c "$inside" inside 2>&1 &
  wait $!
  echo "exit $?"
  exit 0
done
"""
RUN = Probe(
    "container.run", ProbeKind.COMMAND, argv=(
        "timeout", "-k", "10", str(RUN_S), "sh", "-c", _SCRIPT, "sh", _LIST, _INSIDE, CHECK_IMAGE,
    ), seconds=RUN_S + 15.0, root=True, effect=Effect.DISRUPTIVE,
)


class ContainerRun(Fact):
    """What a container that is given all GPUs and RDMA devices has, and what the node has.

    `how` is the client and how it was given GPUs, as in "docker --gpus all". `uuids` are the GPUs that
    nvidia-smi lists inside, `opened` the device files that can be opened there, `adapters` the RDMA devices
    of /sys/class/infiniband; `node_opened` and `node_adapters` are the node's own. `trouble` is why the GPUs'
    runtime gave none, "" where it says nothing.
    """

    name: str
    how: str
    uuids: tuple[str, ...]
    opened: tuple[str, ...]
    adapters: tuple[str, ...]
    node_opened: tuple[str, ...]
    node_adapters: tuple[str, ...]
    trouble: str


_LINE = re.compile(r"(?m)^(node|inside) (opens|rdma) (/?[A-Za-z0-9_./-]{1,64})$")
_UUID = re.compile(r"(?m)^GPU [0-9]{1,3}: .{1,100} \(UUID: (GPU-[0-9a-fA-F-]{8,64})\)\s*$")
_RUNS = re.compile(r"(?m)^runs ((docker|nerdctl|podman) --[a-z]+ [a-z./=]+)$")
_ENDED = re.compile(r"(?m)^inside ended ([0-9]{1,3})$")
_EXIT = re.compile(r"(?m)^exit ([0-9]{1,3})$")
_CLIENT = re.compile(r"(?m)^(lacks|fails) (docker|nerdctl|podman)$")
# In a client's message these begin what is said of the way to GPUs; other messages are of the client itself.
_OF_GPUS = re.compile(r"(?i)(?:nvidia|could not select device driver|unresolvable cdi|cdi device).*")


@fact("container_run", RUN)
def container_run(captures: Captures) -> Any:
    """What the container printed; UNSUPPORTED where the node has none of the three clients."""
    capture = captures.capture(RUN)
    if capture is None or capture.outcome is not Outcome.DONE:
        raise Unread(why(RUN, capture))
    if capture.exit in (124, 137, 143):
        raise Unread(f"the container did not end within {RUN_S} s, and was stopped")
    text = captures.text(RUN)
    runs = _RUNS.search(text)
    if runs is None:
        return _not_run(text, capture.stderr)
    how, client = runs[1], runs[2]
    code, ended = _EXIT.search(text), _ENDED.search(text)
    if code is None:
        raise Unread(f"{how}: the run's output is not whole")
    printed = [line for line in text[runs.end():code.start()].splitlines() if line.strip()
            and not _LINE.match(line) and not _ENDED.match(line)]
    of_gpus = next((match[0] for line in printed if (match := _OF_GPUS.search(line))), "")
    trouble = clean(of_gpus or (printed[0] if printed else "no reason given"), 200)
    uuids = tuple(_UUID.findall(text[runs.end():code.start()]))
    if ended is None and not of_gpus:
        raise Unread(f"{client} run ended with exit status {code[1]}: {trouble}")
    # Each side is believed of itself alone: what runs in the container may print any line.
    sides = {"node": text[:runs.start()], "inside": text[runs.end():code.start()]}
    found: dict[tuple[str, str], list[str]] = {}
    for side, printed_there in sides.items():
        for who, what, name in _LINE.findall(printed_there):
            if who == side:
                found.setdefault((who, what), []).append(name)
    opened: Any = tuple(found.get(("inside", "opens"), ()))
    adapters: Any = tuple(found.get(("inside", "rdma"), ()))
    if ended is None:
        opened = adapters = Unmeasured(f"the container did not start: {trouble}")
    elif ended[1] == "127" and any(path.startswith("/dev/nvidia") for path in opened):
        raise Unread("the container has GPUs' device files and no nvidia-smi: does its image leave `utility` "
                     "out of NVIDIA_DRIVER_CAPABILITIES?")
    return ContainerRun(
        "container", how, uuids=uuids, opened=opened, adapters=adapters,
        node_opened=tuple(found.get(("node", "opens"), ())),
        node_adapters=tuple(found.get(("node", "rdma"), ())), trouble="" if uuids else trouble)


def _not_run(text: str, stderr: str) -> Any:
    """No client has run it: none is there, each lacks the image, or one could not be asked."""
    clients = {client: what for what, client in _CLIENT.findall(text)}
    if not clients:
        return ContainerRun.absent("container")
    first = next((client for client, what in clients.items() if what == "lacks"), "")
    if first:
        raise Unread("no image to run is on the node, and none is pulled. To choose one, as root: "
                     f"{first} tag IMAGE {CHECK_IMAGE} (any with sh, such as "
                     "nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04)")
    reason = clean(stderr.strip().rpartition("\n")[2], 200) or "no reason given"
    raise Unread(f"{' and '.join(sorted(clients))} could not list images: {reason}")
