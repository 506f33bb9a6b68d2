"""Explains one file of a sick machine or job, offline: what it is, what is wrong, how sure that is, what to do, and who owns it."""
