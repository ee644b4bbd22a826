"""Makes and reads crates. A crate is a zip with the run of a campaign (docs/publish-a-run.md).

Others can cite, verify and repeat the run.
"""
