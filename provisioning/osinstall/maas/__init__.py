"""MAAS as the installer: `backend.maas_backend(options)` gives the back end. It speaks the REST API 2.0
(https://canonical.com/maas/docs/api) and was tried against a stand-in that follows it, not against a MAAS.
MAAS commissions, tests and deploys a machine, and drives its power and boot order."""
