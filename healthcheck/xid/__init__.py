"""Xid and SXid tables: what each report of the GPU driver means, and what NVLink's reports say in their numbers."""
