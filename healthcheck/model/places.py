"""Where the agent keeps things on a node, and what the files are called: what writes them there and what
reads them at home agree.
"""

from __future__ import annotations

# A folder of its own: a head that watches itself, too, keeps its store and its looks in /var/lib/muster.
STATE = "/var/lib/muster/agent"
INSTALLED = "/opt/muster/current"   # what is in use (provisioning.agent.layout)
SCHEMA = "muster.agent/1"
RESULT = "result.json"              # SCHEMA: who, when, by which rules, the state and every rule's word
RECORDING = "recording.json.gz"     # muster.recording/1, whole; RESULT names its SHA-256
LOOKS = "looks"                     # what the next run compares with
LOCK = "lock"                       # held by the run that goes on; holds its pid

METRICS = "muster.prom"             # in node_exporter's folder for text files
# What --collector.textfile.directory is by default in Debian's package (debian/patches of
# prometheus-node-exporter), then the folder of node_exporter's own README and of its Ansible role.
TEXTFILE_FOLDERS = ("/var/lib/prometheus/node-exporter", "/var/lib/node_exporter/textfile_collector",
                    "/var/lib/node_exporter")

PERIOD_S = 300.0                    # between two runs, where nobody says otherwise
