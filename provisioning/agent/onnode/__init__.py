"""What runs on a node as root to install the agent: standard library only, Python 3.8, sent as one text
(`collector.joined`)."""
