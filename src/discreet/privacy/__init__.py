"""What is promised, to whom, and in which types the data travels."""

from discreet.privacy.budget import Budget
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Ledger
from discreet.privacy.messages import (
    AnswerBatch,
    AnswerReport,
    Batch,
    BitsReport,
    NoisyBatch,
    NoisyReport,
    RawBatch,
    RawFeatureBatch,
    RawFeatureReport,
    RawReport,
    Report,
    SampledBatch,
    SampledReport,
    ShuffledBatch,
)
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.trust import TRUST_MODELS, Central, Local, NonPrivate, Shuffle, TrustModel, trust

__all__ = [
    "TRUST_MODELS",
    "AnswerBatch",
    "AnswerReport",
    "Batch",
    "BitsReport",
    "Budget",
    "Central",
    "Guarantee",
    "Ledger",
    "Local",
    "NoisyBatch",
    "NoisyReport",
    "NonPrivate",
    "RawBatch",
    "RawFeatureBatch",
    "RawFeatureReport",
    "RawReport",
    "Report",
    "SampledBatch",
    "SampledReport",
    "Sensitivity",
    "Shuffle",
    "ShuffledBatch",
    "TrustModel",
    "trust",
]
