"""A site's own traffic: read from its monitoring, kept as a trace."""
