"""Campaigns, their planner and runner, and the `nimc` command."""
