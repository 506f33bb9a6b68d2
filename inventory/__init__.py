"""Who there is and how to reach it: the inventory, node sets, host keys, transports."""
