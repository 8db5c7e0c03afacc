"""What people and a server do with features, compiled: bit for bit what `FeatureLayout` does in NumPy."""

import math

from numba import types

from discreet._jit import kernel

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
_i2 = types.Array(types.int64, 2, "C")
_rf1 = types.Array(types.float64, 1, "C", readonly=True)
_rf3 = types.Array(types.float64, 3, "C", readonly=True)
_ri1 = types.Array(types.int64, 1, "C", readonly=True)
#: φ (S, A, d₂); offsets, successors, coordinates, weights of ψ
FEATURES = types.Tuple((_rf3, _ri1, _ri1, _ri1, _rf1))
#: of the value features and of V_{h+1}, for every step that has value sums: (steps,) each
_BOUNDS = types.UniTuple(_f1, 2)
#: factors of a triangle's products over the unit of their sum, and units of the vectors: for rewards, then for values
_UNITS = types.Tuple((_f2, _f1, _f2, _f1))


@kernel()
def shorten(vector, bound):
    """Scales a vector down if it is longer than ``bound``; what is not finite becomes 0."""
    largest = 0.0
    for i in range(vector.size):
        if not math.isfinite(vector[i]):
            vector[i] = 0.0
        largest = max(largest, abs(vector[i]))
    total = 0.0
    for i in range(vector.size):
        unit = vector[i] / (largest if largest > 0.0 else 1.0)
        total += unit * unit
    norm = largest * math.sqrt(total)
    factor = min(bound / (norm if norm > 0.0 else 1.0), 1.0)
    for i in range(vector.size):
        vector[i] *= factor


@kernel()
def fill(phi, target, scales, unit, matrix, vector):
    """Fills the products of one step: φφᵀ, its upper triangle, and φ times the target, both in their units."""
    n = 0
    for i in range(phi.size):
        for j in range(i, phi.size):
            matrix[n] = phi[i] * phi[j] * scales[n]
            n += 1
        vector[i] = phi[i] * target / unit


@kernel([types.void(FEATURES, _f2, _BOUNDS, _UNITS, _i2, _i2, _f2, types.UniTuple(_f1, 2), _f2)])
def contribute(features, values, bounds, units, states, actions, rewards, work, rows):
    """Fills ``rows`` (users, size) with what people's episodes add to the sums.

    Both the user and the server clip: rounding may leave a vector too long by its last bit.
    """
    reward_features, offsets, successors, coordinates, weights = features
    feature_bounds, value_bounds = bounds
    reward_scales, reward_units, value_scales, value_units = units
    phi, psi = work
    H, A, n = actions.shape[1], reward_features.shape[1], value_bounds.size
    d2, t2, d1, t1 = phi.size, reward_scales.shape[1], psi.size, value_scales.shape[1]
    vectors = H * t2
    value_matrices = vectors + H * d2
    value_vectors = value_matrices + n * t1
    for k in range(actions.shape[0]):
        row = rows[k]
        for h in range(H):
            s, a = states[k, h], actions[k, h]
            phi[:] = reward_features[s, a]
            shorten(phi, 1.0)
            shorten(phi, 1.0)
            matrix = row[h * t2 : (h + 1) * t2]
            vector = row[vectors + h * d2 : vectors + (h + 1) * d2]
            fill(phi, min(max(rewards[k, h], 0.0), 1.0), reward_scales[h], reward_units[h], matrix, vector)
            if h >= n:
                continue
            psi[:] = 0.0
            for e in range(offsets[s * A + a], offsets[s * A + a + 1]):
                psi[coordinates[e]] += weights[e] * values[h + 1, successors[e]]
            shorten(psi, feature_bounds[h])
            shorten(psi, feature_bounds[h])
            target = min(max(values[h + 1, states[k, h + 1]], 0.0), value_bounds[h])
            matrix = row[value_matrices + h * t1 : value_matrices + (h + 1) * t1]
            vector = row[value_vectors + h * d1 : value_vectors + (h + 1) * d1]
            fill(psi, target, value_scales[h], value_units[h], matrix, vector)


@kernel()
def add_rows(total, rows):
    """Adds ``rows`` (users, size) to ``total``, one after the other."""
    for k in range(rows.shape[0]):
        for i in range(total.size):
            total[i] += rows[k, i]
