"""The program that runs on a node (`onnode`): building (`program`), starting (`loader`), its `reply`."""
