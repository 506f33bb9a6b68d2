"""What a site wants of a bring-up: `load.load` reads `bringup.yaml` into `model.BringupPolicy`."""
