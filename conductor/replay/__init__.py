"""Writers that follow the rates of a trace: how they are paced, and whether they did."""
