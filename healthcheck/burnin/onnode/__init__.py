"""What a burn-in runs on a node: an agent, a nursery that has imported PyTorch, and a rank for each GPU."""
