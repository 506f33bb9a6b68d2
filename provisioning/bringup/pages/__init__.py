"""What people read of a bring-up.

Entry points: `plan` and `dryrun` before it, `live` meanwhile, `status` for where it stands, `report` for the
punch list.
"""
