"""Where the agent keeps its files on a node, for what writes them and what reads them on the head."""

from __future__ import annotations

# Its own folder: a head that watches itself as well keeps its store and snapshots in /var/lib/muster.
STATE = "/var/lib/muster/agent"
INSTALLED = "/opt/muster/current"   # the active version (provisioning.agent.layout)
SCHEMA = "muster.agent/1"
RESULT = "result.json"              # SCHEMA: node, time, rules, state and every rule's result
RECORDING = "recording.json.gz"     # muster.recording/1, whole; RESULT names its SHA-256
SNAPSHOTS = "snapshots"             # what the next run compares with; the head has one, too
LOCK = "lock"                       # locked by the current run; holds its pid

METRICS = "muster.prom"             # in node_exporter's folder for text files
# What --collector.textfile.directory is by default in Debian's package (debian/patches of
# prometheus-node-exporter), then the folder of node_exporter's own README and of its Ansible role.
TEXTFILE_FOLDERS = ("/var/lib/prometheus/node-exporter", "/var/lib/node_exporter/textfile_collector",
                    "/var/lib/node_exporter")

PERIOD_S = 300.0                    # between two runs, by default
