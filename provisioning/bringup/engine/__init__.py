"""Advances a bring-up: who is checked or changed when, what is kept, what stops a run. Entry points:
`run.run` takes machines through their steps, `choose.chosen` says who may be brought up, `hold` and `idle`
keep jobs and machines that are changed apart; `model` has the values."""
