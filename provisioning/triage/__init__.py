"""Carries out a plan of triage in the store and at the scheduler; what the plan says is decided in
`healthcheck.triage`.

Entry points: `apply.view` reads what is so, `apply.apply` does what the plan says, `onerun.one_run` keeps
other runs out.
"""
