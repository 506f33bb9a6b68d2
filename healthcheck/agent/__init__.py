"""The agent on a node: records, judges and stores the result for node_exporter, Nagios,
Slurm and the head."""
