"""The campaign file: its schema, and the checks of it."""
