"""The gate in front of every job: one signed snapshot, made on the head, read on the nodes."""
