"""Repairs nodes: bounded steps, shown to have worked by the check that failed, and returns to the vendor.
Entry points: `choose.choose` says which steps are due, `carry.carry` takes them, `settle.settle` ends what
was cut off; `rma` and `rmaticket` are for returns to the vendor. `onnode` is what runs there."""
