"""Perturbed tables of values: what RLSVI releases."""
