"""Judges whether a run counts, from recorded series. All functions except file access are pure."""
