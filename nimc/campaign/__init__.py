"""The request: the campaign file, its cases, and the plan."""
