"""One night of a campaign under a scheduler: run until a time, judged, and told."""
