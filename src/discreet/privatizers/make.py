"""The only factory: which mechanism asks a thing under a trust model.

A *thing* is a folder of this room. Its entry in `THINGS` is a function that is given the public sizes and the trust
model, and returns a `Mechanism`, or raises and says what can be had instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidInput, UnknownName
from discreet.privacy import Central, Local, NonPrivate, Shuffle, accounting
from discreet.privacy.sensitivity import tabular
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.counts.serve import CentralCounts, ExactCounts, NoisyCounts
from discreet.privatizers.counts.shuffle import ShuffledCounts
from discreet.privatizers.counts.staged import StagedCounts
from discreet.privatizers.features.layout import FeatureLayout
from discreet.privatizers.features.serve import CentralFeatures, ExactFeatures, NoisyFeatures
from discreet.privatizers.first_visits.serve import FirstVisitCounts
from discreet.privatizers.local import LOCAL
from discreet.privatizers.questions.serve import Questions
from discreet.privatizers.randomisers import MOST, choose
from discreet.privatizers.sampled.encode import SampledEncoder
from discreet.privatizers.sampled.serve import SampledCounts
from discreet.privatizers.weighted.serve import CentralWeighted, ExactWeighted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from discreet.mdp import LinearSpec, Spec
    from discreet.privacy import TrustModel
    from discreet.privatizers.base import Mechanism
    from discreet.privatizers.weighted.layout import WeightedLayout

__all__ = ["COUNTS", "THINGS", "counts", "features", "make", "weighted"]


def _exact(spec: Spec, privacy: NonPrivate, *, capacity: int, stationary: bool, **_: object) -> ExactCounts:
    return ExactCounts(spec, capacity=capacity, stationary=stationary)


def _central(
    spec: Spec, privacy: Central, *, capacity: int, batches: Sequence[int], stationary: bool, failure: float
) -> CentralCounts:
    reads = len(batches)
    return CentralCounts(spec, privacy, capacity=capacity, horizon=reads, stationary=stationary, failure=failure)


def _quietest(layout: Layout, privacy: Local) -> str:
    """Returns the local sum with the least noise a user in a transition count, among those proven for the budget."""
    sensitivity = tabular(layout.spec.horizon, layout.families, stationary=layout.stationary)
    H, variances = layout.spec.horizon, {"laplace": 2 * (sensitivity.l1 / privacy.epsilon) ** 2}
    if privacy.epsilon <= MOST:
        randomiser = choose(privacy.randomiser, privacy.epsilon, SampledEncoder.values(layout.spec))
        variances["sampled"] = (H * H if layout.stationary else H) * randomiser.variance(2, holds=False)
    if privacy.delta > 0:
        variances["gaussian"] = (sensitivity.l2 / accounting.gaussian_mu(privacy.epsilon, privacy.delta)) ** 2
    return min(variances, key=lambda name: variances[name])


def _local(
    spec: Spec, privacy: Local, *, capacity: int, stationary: bool, failure: float, **_: object
) -> NoisyCounts | SampledCounts:
    layout = Layout(spec, stationary)
    name = privacy.sum
    if name == "auto":
        name = "laplace" if privacy.calibration == "paper" else _quietest(layout, privacy)
    if name not in LOCAL:
        raise UnknownName("sum", name, (*LOCAL, "auto"))
    if name == "questions":
        raise InvalidInput(
            "sum='questions' is for discreet-vi: answers about first visits are no visit counts, which other agents "
            "plan from; try laplace, sampled or auto"
        )
    if name == "gaussian" and privacy.delta == 0:
        raise InvalidInput("sum='gaussian' needs delta > 0, got delta=0.0; try laplace, sampled")
    if name == "sampled":
        return SampledCounts(layout, privacy, capacity, failure)
    return NoisyCounts(layout, privacy, capacity, failure, "laplace" if name == "laplace" else "gaussian")


def _shuffled(
    spec: Spec, privacy: Shuffle, *, batches: Sequence[int], stationary: bool, failure: float, **_: object
) -> ShuffledCounts:
    return ShuffledCounts(spec, privacy, batches=batches, stationary=stationary, failure=failure)


#: Visit counts, by trust model; other packages may add theirs.
COUNTS: dict[type[Any], Callable[..., Mechanism[Any, Any, Any]]] = {
    NonPrivate: _exact,
    Central: _central,
    Local: _local,
    Shuffle: _shuffled,
}


def counts(
    spec: Spec,
    privacy: TrustModel,
    *,
    capacity: int,
    batches: Sequence[int],
    stationary: bool,
    failure: float = 0.05,
) -> Mechanism[Any, Any, Any]:
    """Returns what counts visits, transitions and rewards under a trust model.

    Args:
        spec: The environment's public sizes.
        privacy: The trust model.
        capacity: Number of users at most.
        batches: How many users each batch has, in order: public. A last, incomplete batch is none.
        stationary: Whether counts are pooled over the steps.
        failure: Probability with which the error bound of the counts may fail.
    """
    if type(privacy) not in COUNTS:
        raise InvalidInput(f"privacy must be a trust model such as Central(…), got {type(privacy).__name__}")
    given: dict[str, Any] = {"capacity": capacity, "batches": batches, "stationary": stationary, "failure": failure}
    return COUNTS[type(privacy)](spec, privacy, **given)


def weighted(
    layout: WeightedLayout, privacy: TrustModel, *, capacity: int, horizon: int
) -> CentralWeighted | ExactWeighted:
    """Returns what sums weighted counts under a trust model.

    Args:
        layout: Of the counts.
        privacy: `Central` with δ > 0, or `NonPrivate`.
        capacity: Number of users at most.
        horizon: Number of reads at most.
    """
    if isinstance(privacy, NonPrivate):
        return ExactWeighted(layout, capacity=capacity)
    if not isinstance(privacy, Central):
        raise InvalidInput(f"weighted counts are for a trusted server, got {type(privacy).__name__}")
    if privacy.delta == 0:
        raise InvalidInput("weighted counts have Gaussian noise and need delta > 0, got delta=0.0; try dp-ucbvi")
    if privacy.calibration == "paper":
        raise InvalidInput("calibration='paper' is printed for the central Laplace sum='tree', not for weighted counts")
    return CentralWeighted(layout, privacy, capacity=capacity, horizon=horizon)


def features(
    spec: LinearSpec,
    privacy: TrustModel,
    *,
    feature_bound: float,
    capacity: int,
    batches: Sequence[int],
    failure: float,
) -> ExactFeatures | CentralFeatures | NoisyFeatures:
    """Returns what sums feature products under a trust model.

    Args:
        spec: Sizes and features.
        privacy: The trust model.
        feature_bound: B.
        capacity: Number of users at most.
        batches: How many users each batch has: public.
        failure: Probability with which the regulariser's bounds may fail.
    """
    if isinstance(privacy, Shuffle):
        raise InvalidInput(
            "linear agents have no shuffle model: it sends bits, and sums of feature products are real numbers; "
            "take Central(…) or Local(…) with delta > 0"
        )
    if isinstance(privacy, NonPrivate):
        return ExactFeatures(FeatureLayout(spec, feature_bound), capacity=capacity)
    if not isinstance(privacy, Central | Local):
        raise InvalidInput(f"privacy must be a trust model such as Central(…), got {type(privacy).__name__}")
    if privacy.delta == 0:
        raise InvalidInput("sums of feature products have Gaussian noise and need delta > 0, got delta=0.0")
    printed = privacy.calibration == "paper"
    layout = FeatureLayout(spec, feature_bound, printed)
    if isinstance(privacy, Central):
        if privacy.release != "auto":
            raise InvalidInput(
                f"release={privacy.release!r} is for agents that count; linear agents have release='auto'"
            )
        return CentralFeatures(layout, privacy, capacity=capacity, horizon=len(batches), failure=failure)
    if privacy.sum not in ("gaussian", "auto"):
        raise InvalidInput(f"linear agents have the local sum='gaussian' only, got sum={privacy.sum!r}")
    if printed:
        raise InvalidInput("calibration='paper' is printed for the central Gaussian sum='tree', got Local")
    return NoisyFeatures(layout, privacy, capacity=capacity, failure=failure)


def make(thing: str, /, *given: Any, **options: Any) -> Mechanism[Any, Any, Any]:
    """Returns the mechanism of a thing that is asked; the rest is what its entry in `THINGS` takes."""
    if thing not in THINGS:
        raise UnknownName("thing to ask", thing, THINGS)
    return THINGS[thing](*given, **options)


#: What can be asked, by the name of its folder (`staged` counts another thing in every batch).
THINGS: dict[str, Callable[..., Mechanism[Any, Any, Any]]] = {
    "counts": counts,
    "staged": StagedCounts,
    "questions": Questions,
    "first_visits": FirstVisitCounts,
    "weighted": weighted,
    "features": features,
}
