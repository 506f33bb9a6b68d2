"""The fabric as its subnet sees it: what is there (`model`), what is meant to be there (`cabling`), and how
they differ.

Pure values and functions: reading tools' output, comparing and planning happen here; asking a fabric and
changing it do not.
"""
