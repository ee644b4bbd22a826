"""Evidence that writes happened: rates, device counters, memory binding. Pure."""
