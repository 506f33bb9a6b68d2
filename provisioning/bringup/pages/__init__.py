"""A bring-up's pages: `plan` and `dryrun` before it, `live` meanwhile, `status` for where it stands, `report`
for the punch list."""
