"""A management controller that speaks Redfish."""
