"""Installs operating systems over our own PXE: renders what dnsmasq and installers read (`dnsmasq`, `seed`),
serves it to armed machines and takes their signed phone-home (`server`), and is a back end (`backend`)."""
