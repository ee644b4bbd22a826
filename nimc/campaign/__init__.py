"""What is requested: the campaign file, its cases, and the plan."""
