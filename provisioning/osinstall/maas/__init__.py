"""MAAS as the installer: `backend.maas_backend(options)` gives the back end. It speaks the REST API 2.0
(https://canonical.com/maas/docs/api) and was tried against a stand-in that follows it, not against a MAAS.

MAAS commissions a machine, tests it and deploys an image; it drives the power and the boot order by itself.
"""
