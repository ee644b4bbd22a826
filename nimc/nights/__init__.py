"""Campaigns that run every night: when, under which limits, and how a night ended."""
