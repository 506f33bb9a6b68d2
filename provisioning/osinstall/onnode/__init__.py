"""What runs on an installed system until it has phoned home: Python 3.8 and systemd, nothing else."""
