"""Xid and SXid tables: what each report of the GPU driver means, and the numbers in NVLink's reports."""
