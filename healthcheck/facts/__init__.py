"""Facts: typed values parsed from captures, one module per subject."""
