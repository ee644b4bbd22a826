"""What runs in the allocation: conductor, agents, injectors, and the judge of a run."""
