"""One sweep from inventory to results: `sweep.sweep` runs it, `assess.assess` judges, `saved` keeps it."""
