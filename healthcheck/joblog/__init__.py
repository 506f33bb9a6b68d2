"""Reads a job's logs and finds the culprit: `read.read` makes one JobLog of its files,
`charges.charges` interprets it."""
