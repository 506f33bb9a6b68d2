"""Wanted firmware against what machines run: `drift.judged` compares, `drift.groups` folds over the fleet,
`read.read_now` asks controllers."""
