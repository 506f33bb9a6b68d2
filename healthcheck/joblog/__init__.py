"""Reads what a job left behind, and says whom it accuses: `read.read` makes one JobLog of its files, `charges.charges` what that means."""
