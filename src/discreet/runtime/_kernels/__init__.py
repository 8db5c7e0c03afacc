"""Compiled blocks: whole stretches of a simulation without returning to Python."""
