"""Sums over users of bounded vectors: all that a server keeps of its users."""

from discreet.sums.exact import ExactSum

__all__ = ["ExactSum"]
