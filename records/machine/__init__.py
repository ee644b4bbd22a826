"""A machine: its site file, and the facts that are detected on its hosts."""
