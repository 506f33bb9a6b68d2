"""Watches running jobs: pure reading and deciding; no clock, network or process.

What comes in: lines of step times (`model.StepTime`), read from logs by `steptexts.StepLog`; and what nodes
say (`signals.NodeSignal`, made of two samples by `nodesignals.signals_between`).

`watcher.JobWatch` is the entry point, one for each job:

    watch = JobWatch(WatchSettings(), places)   # places: host -> rack
    watch.add(line)                             # for each StepTime; add_all for many
    watch.add_signals(signals)
    update = watch.settle(now)                  # after each pass over all logs: WatchUpdate
    update = watch.finish()                     # at the end of finished logs
    watch.windows                               # the newest, with speed and phases of the job (MFU over time)
    watch.attempts                              # starts of the job: steps done again, idle time (goodput)
    watch.findings                              # by id: who, since when, seconds lost a step, cause, evidence

Inside: `windows` gathers lines by step number (`attempts` tells restarts apart), `late` judges one window,
`track` who stays late, `groups` who is slow together, `jobwide` what slows all, `hang` who did
not come, `causes` weighs signals, which `signalstore` keeps. Memory is bounded by the number of ranks.
"""
