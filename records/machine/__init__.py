"""A machine: its site file, and what is found on its hosts."""
