"""nccl-tests as another engine of a burn-in: how to start it, read its output, and check its figures."""
