"""What a host and its programs can do for a machine: doctor, probes, reservations."""
