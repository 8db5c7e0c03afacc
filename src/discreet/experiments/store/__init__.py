"""Finished runs on disk: whole or not there at all."""

from discreet.experiments.store.directory import Damage, Store

__all__ = ["Damage", "Store"]
