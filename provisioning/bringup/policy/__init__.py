"""What a site wants of a bring-up, read from `bringup.yaml` of the rules folders: `load.load` gives the
`model.BringupPolicy`."""
