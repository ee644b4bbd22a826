"""Checks of a host and its programs: doctor, probes, reservations."""
