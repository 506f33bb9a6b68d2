"""Hooks that put the gate in front of jobs: scripts and configuration for Slurm and Kubernetes,
to print and install.

What Slurm does by itself when a Prolog fails: it drains the node with a reason of its own ("Prolog error")
and requeues the job in held state (slurm.conf(5), Prolog; prolog_epilog.html, Failure Handling). A closed
gate is no broken node, so the hooks below end with 0 whatever they found and hold the job instead: proven on
a real Slurm by tests/healthcheck/gate/test_slurm.py.
"""

from __future__ import annotations

_SLURM = """\
#!/bin/sh
# The gate in front of every job, without draining a node.
#
# 1. On the machine of slurmctld, which has the snapshot (muster gate fetch):
#
#        muster gate --print slurm > /etc/slurm/muster-gate; chmod 755 /etc/slurm/muster-gate
#
#    and in slurm.conf:   PrologSlurmctld=/etc/slurm/muster-gate
#
# 2. On the nodes, if each is to be asked once more as a job arrives: the same file, and in slurm.conf:
#
#        Prolog=/etc/slurm/muster-gate
#        PrologFlags=Alloc,DeferBatch       (or a job starts on the first of its nodes that opens)
#
# A failing Prolog makes Slurm drain the node, with the reason "Prolog error", and hold the job; a failing
# PrologSlurmctld makes it start the job over and over. So this one ends with 0: a job that may not start is
# requeued and held, its comment gives the reason, and `scontrol release JOB` lets it try again; Slurm starts
# no requeued job in the first two minutes (AuthInfo: cred_expire). One that cannot be requeued (srun, salloc,
# --no-requeue) is cancelled. If the gate does not know (no snapshot, or one past its grace) or is missing,
# the job starts, and the system log says so; UNSURE=hold holds it instead.
# Only jobs of these partitions are checked, such as 'train gpu-*': a node outside the inventory is closed.
UNSURE=start
PARTITIONS='*'

# Slurm gives its hooks no search path, and to this one no SLURM_CONF.
PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
export PATH@CONF@
set -f
asked=no
for each in $PARTITIONS; do
    case "$SLURM_JOB_PARTITION" in $each) asked=yes ;; esac
done
[ "$asked" = no ] && exit 0
# A node may have the agent alone, which judges the node that it is on.
if [ -x @MUSTER@ ]; then
    set -- @MUSTER@
else
    set -- python3 -I -S /opt/muster/current/muster.pyz
fi
if [ "$SLURM_SCRIPT_CONTEXT" = prolog_slurmctld ]; then
    said=$(timeout -k 5 20 "$@" gate --nodelist "$SLURM_JOB_NODELIST" 2>&1)
else
    said=$(timeout -k 5 20 "$@" gate --slurm-prolog 2>&1)
fi
code=$?
[ "$code" -eq 0 ] && exit 0
said=$(printf '%s' "$said" | tr -s '[:space:]' ' ' | cut -c 1-300)
logger -t muster-gate "job $SLURM_JOB_ID: exit $code: $said"
[ "$code" -ne 1 ] && [ "$UNSURE" = start ] && exit 0
scontrol update JobId="$SLURM_JOB_ID" Comment="$said"
scontrol requeuehold "$SLURM_JOB_ID" && exit 0
# Priority 0: it is held already, for another node, or was and waits again. Else it cannot be requeued.
case "$(squeue -h -j "$SLURM_JOB_ID" -o '%Q %T')" in '0 '* | *' PENDING') exit 0 ;; esac
scancel "$SLURM_JOB_ID" || [ "$SLURM_SCRIPT_CONTEXT" != prolog_slurmctld ]
"""

_KUBERNETES = """\
# The gate as the first init container of a pod that wants GPUs.
#
# A closed gate makes the init container fail: the kubelet runs it again after a while (restartPolicy
# OnFailure or Always: 10 s, 20 s, up to 5 min), so the pod waits in place until the gate opens; with
# restartPolicy Never the pod fails, and a Job makes another, which may land elsewhere. The node itself is
# left alone. Nodes must have their inventory names in Kubernetes.
# The image must have muster; the snapshot and its keys come from the node, read-only, so it needs no network.
spec:
  initContainers:
  - name: muster-gate
    image: muster:latest        # yours
    command: [muster, gate, $(NODE_NAME)]
    env:
    - name: NODE_NAME
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
    securityContext:
      {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 256Mi}}
    volumeMounts:
    - {name: muster-gate, mountPath: /var/lib/muster/gate, readOnly: true}
    - {name: muster-keys, mountPath: /etc/muster, readOnly: true}
  volumes:
  - {name: muster-gate, hostPath: {path: /var/lib/muster/gate, type: Directory}}
  - {name: muster-keys, hostPath: {path: /etc/muster, type: Directory}}
"""

HOOKS = {"slurm": _SLURM, "kubernetes": _KUBERNETES}


def hook(kind: str, muster: str, slurm_conf: str = "") -> str:
    """The text of one of HOOKS, with this `muster`'s path, and slurm.conf's if not the usual one."""
    from shlex import quote

    conf = f"\nSLURM_CONF={quote(slurm_conf)}\nexport SLURM_CONF" if slurm_conf else ""
    return HOOKS[kind].replace("@MUSTER@", quote(muster)).replace("@CONF@", conf)
