"""Ways to run one program on many nodes: ssh, local."""
