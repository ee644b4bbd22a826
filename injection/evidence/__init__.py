"""Evidence that writes happened: rates, device counters, memory binding, schedule. Pure."""
