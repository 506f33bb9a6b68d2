"""The corpus: what muster makes of everything that is recorded, kept as data, so that a change of the code
that changes none of it has kept its behaviour. States, findings, owners, acts and exit codes are kept; times
are not, nor words, which may get better.

What it holds:

- `fleets/`: saved sweeps with the sweep before them. `demo-1` to `demo-6` are the demo's fleets of 32 nodes
  by those seeds, `scenarios` has a
  node for each planted fault of tests/scenarios, which has the fault's name, and eight healthy ones. Each has
  `planted.json` in it.
- `expected/`: what is made of each fleet by `muster check --replay` (sweep-*), of what a head does with it
  that sees it three times: triage,
  what it applies, the nodes' states, the gate's answer, blame (day-*); what is made of every file of
  tests/recordings by `muster explain` and `muster blame`, and of each labelled event of kernel logs (explain,
  events, blame, blame-jobs); and how racks of scripted machines are brought up: step, state, owner and part
  of each, what was done to it, the punch list, exit codes (bringup-*).
- `files.py` says what becomes of each file of tests/recordings. A file that it does not name, or that has no
  expectation, fails a test.

A test that fails names each place that differs. Where the difference is meant, type

    MUSTER_GOLDEN=update .venv/bin/python -m pytest tests/corpus

read the diff of `expected/`, and list in the commit each state, finding, owner, act and exit code that
changed, with its reason. A commit that only moves or rewrites code has none.

The fleets are recorded again (`python -m tests.corpus.record [NAME...]`, about a minute a seed and six for
the scenarios) only where a probe, the simulated hardware or a scenario has changed; what rules and checks
make of them needs no new recording. A fleet that is recorded again has a new time, so that the whole of its
expectation is read again. The days of seeds 2 to 6 are in the slow tier.
"""
