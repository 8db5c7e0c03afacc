"""The types of the functions that compiled kernels pass to each other."""

from numba import types

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
_f3 = types.Array(types.float64, 3, "C")
_f4 = types.Array(types.float64, 4, "C")
_i2 = types.Array(types.int64, 2, "C")

#: visits (H, S, A), transitions (H, S, A, S), reward sums (H, S, A); the first axis is 1 if pooled
COUNTS = types.Tuple((_f3, _f4, _f3))
#: Q (H, S, A), V (H+1, S), policy (H, S)
PLANNED = types.Tuple((_f3, _f2, _i2))
#: the same with a policy (H, S, A) of probabilities
PLANNED_MIXED = types.Tuple((_f3, _f2, _f3))
#: plan(parameters, counts, planned): overwrites planned, where Q and policy come in as the last plan left them
PLAN = types.void(_f1, COUNTS, PLANNED)
PLAN_MIXED = types.void(_f1, COUNTS, PLANNED_MIXED)
