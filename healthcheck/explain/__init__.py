"""Explains one file of a sick machine or job, offline: its kind, what is wrong, how sure that is,
what to do, and the owner."""
