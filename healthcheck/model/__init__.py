"""The values that everything else shares: outcomes, probes, recordings and leases."""
