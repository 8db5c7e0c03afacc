"""Sums of feature products, for linear mixture MDPs."""
