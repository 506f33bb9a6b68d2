"""What runs on a node in a burn-in: an agent of the standard library, a nursery that has imported PyTorch,
and a rank for each GPU.
"""
