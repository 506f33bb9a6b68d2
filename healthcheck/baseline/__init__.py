"""The kernel-log baseline: what healthy nodes write, known faults, and what no node wrote before."""
