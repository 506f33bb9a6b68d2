"""Which node killed a job: evidence from the store, the scheduler and logs, ranked;
reads and decides, changes nothing."""
