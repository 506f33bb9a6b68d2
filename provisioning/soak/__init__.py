"""Whether a machine comes back from restarts as it was: `send` asks and restarts it, `record` keeps what each
boot showed, `compare` and `boottimes` say what differs."""
