"""Who writes to whom and when. Standard library only: it starts on any compute node."""
