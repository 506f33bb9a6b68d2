"""Finds management controllers and says what does not fit: with the delivery list, with the inventory, with what was looked at before."""
