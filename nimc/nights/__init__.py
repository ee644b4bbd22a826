"""One night of a campaign under a scheduler: runs it until a time, judges it, sends its summary."""
