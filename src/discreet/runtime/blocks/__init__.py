"""Compiled blocks: act, count, release and plan for thousands of people in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.privatizers.counts.serve import CentralCounts, ExactCounts, NoisyCounts
from discreet.privatizers.features.serve import CentralFeatures, ExactFeatures, NoisyFeatures
from discreet.privatizers.sampled.serve import SampledCounts
from discreet.privatizers.values.serve import PerturbedTables
from discreet.runtime.blocks.base import Blocks
from discreet.runtime.blocks.counts import CountBlocks, LocalBlocks
from discreet.runtime.blocks.features import FeatureBlocks, LocalFeatureBlocks
from discreet.runtime.blocks.sampled import SampledBlocks
from discreet.runtime.blocks.values import ValueBlocks

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BLOCKS",
    "Blocks",
    "CountBlocks",
    "FeatureBlocks",
    "LocalBlocks",
    "LocalFeatureBlocks",
    "SampledBlocks",
    "ValueBlocks",
]

#: By the mechanism that they stand for.
BLOCKS: dict[type[Any], Callable[[Any], Blocks]] = {
    ExactCounts: CountBlocks,
    CentralCounts: CountBlocks,
    NoisyCounts: LocalBlocks,
    SampledCounts: SampledBlocks,
    PerturbedTables: ValueBlocks,
    ExactFeatures: FeatureBlocks,
    CentralFeatures: FeatureBlocks,
    NoisyFeatures: LocalFeatureBlocks,
}
