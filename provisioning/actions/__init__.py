"""What is changed at a scheduler: the back ends that keep jobs away from a node, and cordons and reboots
through one of them.

Entry points: `choose.backend` gives the back end (Slurm, Kubernetes, a file of hosts, a site's own command),
`cordon.cordon` and `cordon.uncordon` act through it with the store as memory, `reboot.reboot` restarts nodes,
`ownership.whose` says whose a hold is.
"""
