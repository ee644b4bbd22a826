"""The programs that make writes, behind one small interface."""
