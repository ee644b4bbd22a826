"""What runs in the allocation: conductor, agents, injectors, and the evidence of writes."""
