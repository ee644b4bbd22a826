"""Programs of each node: the agent, the ends of its writers, and what it records."""
