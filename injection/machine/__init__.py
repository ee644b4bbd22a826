"""Description of a machine: its site file, and what is detected on its hosts."""
