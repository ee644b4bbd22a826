"""Crates: a run as one file that others can cite, verify and repeat (docs/publish-a-run.md)."""
