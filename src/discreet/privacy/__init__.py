"""What is promised, to whom, and in which types the data travels."""

from discreet.privacy.guarantee import Guarantee
from discreet.privacy.messages import Batch, RawBatch, RawReport, Report
from discreet.privacy.trust import NonPrivate, TrustModel

__all__ = ["Batch", "Guarantee", "NonPrivate", "RawBatch", "RawReport", "Report", "TrustModel"]
