"""Runs a campaign block by block, and keeps what it measured."""
