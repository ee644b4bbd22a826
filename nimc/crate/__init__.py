"""Crates: a run as one file that a stranger can cite, verify and repeat (docs/publish-a-run.md)."""
