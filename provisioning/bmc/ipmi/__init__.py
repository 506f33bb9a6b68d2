"""Controllers that speak no Redfish, through ipmitool(1) and IPMI 2.0 over LAN (RMCP+, "lanplus")."""
