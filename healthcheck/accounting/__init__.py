"""Statistics of a fleet's history: failures, rates, times, and repeat offenders."""
