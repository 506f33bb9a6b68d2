"""Changes machines and schedulers: bring-up, burn-in, triage, remediation, the agent, controllers; `cli` has
the commands."""
