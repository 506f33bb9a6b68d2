"""The steps, a module each: looks whether it is so, says what would change, and makes it so."""
