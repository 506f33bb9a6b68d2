"""Which node killed a job: evidence from the store, the scheduler and logs, ranked; changes nothing."""
