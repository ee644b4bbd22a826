"""Programs that run once in the allocation: the conductor of a block, its runs and writers."""
