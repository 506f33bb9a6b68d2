"""Back ends that keep jobs away from a node: Slurm, a file of hosts, or a site's own command."""
