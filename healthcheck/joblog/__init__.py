"""Reads a job's logs and finds the culprit: `read.read` makes a JobLog, `charges.charges` interprets it."""
