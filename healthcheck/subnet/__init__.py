"""The fabric as its subnet sees it: what is there (`model`), what is meant to be there (`cabling`), and how
they differ. Pure: asking a fabric and changing it happen elsewhere."""
