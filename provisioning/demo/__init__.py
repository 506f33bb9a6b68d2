"""The loopback fleet: real sshd, simulated hardware, planted faults. Entry points: `fleet.DemoFleet` runs it,
`faults` plants, `expected` compares what was found with what was planted."""
