"""Where randomness comes from."""

from discreet.noise.streams import Role, Seed, seed_sequence, stream

__all__ = ["Role", "Seed", "seed_sequence", "stream"]
