"""One night of a campaign under a scheduler: runs the campaign, judges it, sends a summary."""
