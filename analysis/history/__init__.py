"""The history of machines: nights, changes and alarms. Pure functions on the tables of `tables`."""
