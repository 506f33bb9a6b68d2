"""Carries out a plan of triage, decided in `healthcheck.triage`, in store and scheduler. Entry points:
`apply.view` reads what is so, `apply.apply` does what the plan says, `onerun.one_run` is alone."""
