"""The status page: `gather.document` makes one JSON document of what the store, the certificates and the burn-ins
say (muster.page/1), and `html.page` shows it as one HTML file without external parts."""
