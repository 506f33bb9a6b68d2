"""What runs on a node that sees the fabric."""
