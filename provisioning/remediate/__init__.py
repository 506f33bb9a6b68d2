"""Remediation: steps that mend a node, each named, bounded, and shown to have worked by the check that failed."""
