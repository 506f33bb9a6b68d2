"""What is installed on a node: it looks, judges and keeps the result whole, for node_exporter, Nagios, Slurm and the head to read."""
