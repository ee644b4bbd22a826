"""Simulations behind the tables of docs/. Not part of the program."""
