"""Who puts the operating system on a machine, behind one interface: MAAS, muster's own PXE, virtual media,
a site's command, or others whose work is only asked for. `base.OsBackend` is the interface.
"""
