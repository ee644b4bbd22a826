"""What a machine is: as its site file says, and as its hosts show."""
