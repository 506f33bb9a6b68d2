"""Base configuration: the little that muster needs of a machine, and what is a hazard if absent; all else is for the site's own tools."""
