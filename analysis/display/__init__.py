"""How figures, tables and sentences are shown, on pages, in files and in the terminal."""
