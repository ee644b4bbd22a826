"""What runs once in the allocation: the conductor of a block, its runs and its writers."""
