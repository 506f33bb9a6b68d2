"""The loopback fleet: real sshd, simulated hardware at the lowest seam, planted faults."""
