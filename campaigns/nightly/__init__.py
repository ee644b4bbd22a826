"""Campaigns that run every night: when, under which limits, how a night ended, and who is told."""
