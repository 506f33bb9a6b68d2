"""nccl-tests as another engine of a burn-in: how it is started, what it printed, and whether its figures can
be right.
"""
