"""Certificates: what a node has shown, signed, and for which hardware it holds; with nothing that needs compiling where they are read."""
