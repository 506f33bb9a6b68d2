"""The status page: `gather.document` makes one JSON document (muster.page/1) of the store, the certificates
and the burn-ins, and `html.page` shows it as one HTML file without external parts."""
