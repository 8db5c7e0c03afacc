"""Where randomness comes from."""

from discreet.noise.fast import as_source
from discreet.noise.secure import SecureSource
from discreet.noise.source import Distribution, Source
from discreet.noise.streams import Role, Seed, seed_sequence, stream

__all__ = ["Distribution", "Role", "SecureSource", "Seed", "Source", "as_source", "seed_sequence", "stream"]
