"""Counts that users weight, so that the length of what they add is bounded."""
