"""Reads what a job left behind: NCCL's, torchrun's and Slurm's lines and PyTorch's flight recorder, as events by rank and node."""
