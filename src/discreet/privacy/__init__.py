"""What is promised, to whom, and in which types the data travels."""

from discreet.privacy.budget import Budget
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Ledger
from discreet.privacy.messages import Batch, RawBatch, RawReport, Report
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.trust import Central, NonPrivate, TrustModel

__all__ = [
    "Batch",
    "Budget",
    "Central",
    "Guarantee",
    "Ledger",
    "NonPrivate",
    "RawBatch",
    "RawReport",
    "Report",
    "Sensitivity",
    "TrustModel",
]
