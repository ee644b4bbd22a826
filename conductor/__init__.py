"""Programs of the allocation: conductor, agents, injectors, and the judge of a run."""
