"""What puts the gate in front of jobs: scripts and lines of configuration for Slurm and Kubernetes, printed for a person to install.

What Slurm does by itself when a Prolog fails: it drains the node with a reason of its own ("Prolog error") and requeues the job in held
state (slurm.conf(5), Prolog; prolog_epilog.html, Failure Handling). A closed gate is no broken node, so the hooks below end with 0
whatever they found and hold the job instead: proven on a real Slurm by tests/healthcheck/gate/test_slurm.py.
"""

from __future__ import annotations

_SLURM = """\
# muster gate --print slurm: the gate in front of every job, without draining a node.
#
# A Prolog that fails makes Slurm drain the node ("Prolog error") and hold the job; a PrologSlurmctld that fails makes it requeue the job,
# which then starts over and over. So neither of these fails: a job that may not start is requeued and held, its comment says why, and
# `scontrol release JOB` lets it try again. A job that cannot be requeued (srun, salloc, --no-requeue) is cancelled; its owner asked for it.
# Where the gate cannot tell (no snapshot, or one past its grace), or is not there at all, the job starts and the system's log says so:
# UNSURE=hold is the other choice.
#
# 1. On the machine of slurmctld, which needs the snapshot too: see `muster gate fetch --help`.
#    Save what stands between the lines as /etc/slurm/muster-gate, chmod 755, and say in slurm.conf:
#
#        PrologSlurmctld=/etc/slurm/muster-gate
#
# 2. On the nodes, if they are to be asked once more as the job arrives: the same file, and
#
#        Prolog=/etc/slurm/muster-gate
#        PrologFlags=Alloc
#
#    Then: scontrol reconfigure
# -------------------------------------------------------------------------------------------------------------------------------------
#!/bin/sh
# Slurm gives hooks no PATH (prolog_epilog.html).
PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
export PATH
UNSURE=start

if [ "$SLURM_SCRIPT_CONTEXT" = prolog_slurmctld ]; then
    said=$(timeout 20 @MUSTER@ gate --nodelist "$SLURM_JOB_NODELIST" 2>&1)
else
    said=$(timeout 20 @MUSTER@ gate --slurm-prolog 2>&1)
fi
code=$?
short=$(printf '%s' "$said" | tr -s '[:space:]' ' ' | cut -c 1-300)

if [ "$code" -eq 0 ]; then
    exit 0
fi
logger -t muster-gate "job $SLURM_JOB_ID: exit $code: $short"
if [ "$code" -ne 1 ] && [ "$UNSURE" = start ]; then
    exit 0
fi
scontrol update JobId="$SLURM_JOB_ID" Comment="muster gate: $short"
scontrol requeuehold "$SLURM_JOB_ID" || scancel "$SLURM_JOB_ID"
exit 0
"""

_KUBERNETES = """\
# muster gate --print kubernetes: the gate as the first init container of a pod that wants GPUs.
#
# A closed gate is an init container that fails: the kubelet runs it again after a while (restartPolicy OnFailure or Always: 10 s, 20 s, up
# to 5 min), so the pod waits where it is until the gate opens; with restartPolicy Never the pod fails, and a Job makes another, which may
# land elsewhere. The node itself is left alone. Nodes must be called in Kubernetes what the inventory calls them.
# The image is one that has muster; the snapshot and its keys come from the node, read-only, so no network is needed.
spec:
  initContainers:
  - name: muster-gate
    image: muster:latest        # yours
    command: [muster, gate, $(NODE_NAME)]
    env:
    - name: NODE_NAME
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 256Mi}}
    volumeMounts:
    - {name: muster-gate, mountPath: /var/lib/muster/gate, readOnly: true}
    - {name: muster-keys, mountPath: /etc/muster, readOnly: true}
  volumes:
  - {name: muster-gate, hostPath: {path: /var/lib/muster/gate, type: Directory}}
  - {name: muster-keys, hostPath: {path: /etc/muster, type: Directory}}
"""

HOOKS = {"slurm": _SLURM, "kubernetes": _KUBERNETES}


def hook(kind: str, muster: str) -> str:
    """The text for one of HOOKS, with the path of this `muster`."""
    return HOOKS[kind].replace("@MUSTER@", muster)
