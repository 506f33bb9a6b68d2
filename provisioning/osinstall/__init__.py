"""Who puts the operating system on a machine: MAAS, own PXE, virtual media, a site's command, or others whose
work is only asked for; `base.OsBackend` is the interface."""
