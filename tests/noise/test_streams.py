"""One seed, separate streams."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.noise import Role, seed_sequence, stream


def test_roles_draw_from_different_streams():
    """Would catch an agent whose noise is its users' randomness."""
    first = [stream(seed_sequence(0), role).random() for role in Role]
    assert len(set(first)) == len(Role)


def test_run_i_of_seed_s():
    """SPEC: run i of seed S uses SeedSequence([S, i]); a bare seed is its run 0."""
    assert seed_sequence([7, 3]).entropy == [7, 3]
    draw = lambda seed: stream(seed_sequence(seed), Role.AGENT).random()  # noqa: E731
    assert draw(7) == draw([7, 0])
    assert draw([7, 0]) != draw([7, 1])
    assert draw(np.random.SeedSequence([7, 1])) == draw([7, 1])
    assert draw(None) != draw(None)


def test_the_definition_is_fixed():
    """Recorded results depend on it: a change must be deliberate."""
    child = np.random.SeedSequence([5, 2], spawn_key=(0,))
    expected = np.random.Generator(np.random.PCG64(child)).random(3)
    np.testing.assert_array_equal(stream(seed_sequence([5, 2]), Role.PEOPLE).random(3), expected)


@pytest.mark.parametrize("bad", [-1, 1.5, "x", [1, -2], [0.5], [], object()])
def test_bad_seeds_are_named(bad):
    with pytest.raises(ValueError, match="seed"):
        seed_sequence(bad)
