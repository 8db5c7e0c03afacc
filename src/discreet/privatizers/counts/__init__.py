"""Visits, transitions and reward sums: what the papers' tabular agents ask for."""
