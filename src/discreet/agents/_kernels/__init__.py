"""Compiled planners and the compiled simulation block; one file per algorithm."""
