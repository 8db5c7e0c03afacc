"""Checks a statement: builds its mechanism from the parameters alone, computes ε anew, and follows chain and signature.

Whoever sent the statement may wish us harm: it names agents, environments and records, and only those that are
registered here are looked up.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from discreet import __version__, agents
from discreet.envs import ENVIRONMENTS
from discreet.errors import DiscreetError, InvalidInput
from discreet.live import signing
from discreet.live.compare import close, differences, laid_open, listed
from discreet.live.config import Config, read
from discreet.live.population import Population
from discreet.live.public import chained, genesis, promised
from discreet.live.statement import FORMAT, Statement, described
from discreet.privacy import Shuffle
from discreet.runtime import records

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.agents.base import LearningAgent

__all__ = ["TOLERANCE", "Check", "Verdict", "verify"]

#: How far a stated ε may be from the one that is computed.
TOLERANCE = 1e-9
_CALIBRATED = 1e-6  # relative, of noise; ε is computed from the noise that is stated
#: Names of the numbers that say how much noise there is; the rest of what is calibrated follows from the parameters.
_NOISE = (
    *("scale", "parameter", "bits", "fine", "epsilon", "error", "errors"),
    *("noise_bits", "probability", "noise"),  # of shuffled bits, whose search may end elsewhere on another machine
)
_STATES = ("open", "complete", "rolled-back")
_KEYS = {
    *("format", "discreet", "written_by", "deployment", "made", "state", "config", "resolved", "simulation"),
    *("promise", "trust", "not_covered", "not_checked", "mechanism"),
    *("chain", "releases", "plans", "population", "signer", "digest", "signature"),
}
_WORDS = ("promise", "trust", "not_covered", "not_checked")


@dataclass(frozen=True)
class Check:
    """One thing that was checked.

    Attributes:
        name: What it is about.
        held: Whether it holds.
        said: What was found.
    """

    name: str
    held: bool
    said: str


@dataclass
class Verdict:
    """What was found of a statement.

    Attributes:
        checks: What was checked, in order.
        unchecked: What could not be checked.
        guarantee: The guarantee in words, as it was computed here; None if it could not be.
        epsilon: The ε that was computed here.
        delta: The δ.
        title: Which statement it is.
    """

    checks: list[Check] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    guarantee: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    title: str = ""

    @property
    def holds(self) -> bool:
        """Whether all that was checked holds."""
        return all(check.held for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {
            "statement": self.title,
            "holds": self.holds,
            "guarantee": self.guarantee,
            "epsilon": self.epsilon if self.epsilon is None or math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "checks": [vars(check) for check in self.checks],
            "unchecked": self.unchecked,
        }

    def to_text(self) -> str:
        """Returns lines for people to read."""
        lines = [f"statement    {self.title}"] if self.title else []
        lines += [f"computed     {self.guarantee}"] if self.guarantee else []
        lines += [f"{'holds' if each.held else 'FAILED':13}{each.name}: {each.said}" for each in self.checks]
        lines += [f"not checked  {each}" for each in self.unchecked]
        return "\n".join([*lines, "verdict      " + ("the statement holds" if self.holds else "IT DOES NOT HOLD")])

    def _add(self, name: str, wrong: str | None, said: str) -> bool:
        self.checks.append(Check(name, wrong is None, said if wrong is None else wrong))
        return wrong is None


def verify(statement: Statement | str | bytes, key: str | None = None) -> Verdict:
    """Checks a statement, from itself alone.

    Args:
        statement: It, or its text.
        key: The public key that it must be signed with, if it is known from elsewhere.

    Raises:
        InvalidInput: If it is no statement at all, or the key is none.
        MissingExtra: If it is signed and ``cryptography`` is not installed.
    """
    wanted, verdict = None if key is None else signing.key_of(key), Verdict()
    text = statement.to_json() if isinstance(statement, Statement) else statement
    wrong = None
    try:
        document = signing.read(text)
    except signing.Altered as error:
        document, wrong = error.document, str(error)
    if document.get("format") != FORMAT:
        raise InvalidInput(f"this is no statement of a deployment: its format must be {FORMAT!r}")
    if not verdict._add("bytes", wrong, "written as discreet writes it"):
        return verdict
    if set(document) != _KEYS:
        verdict._add("contents", f"it must have exactly these parts: {', '.join(sorted(_KEYS))}", "")
        return verdict
    verdict.title = (
        f"{document['deployment']}, {document['state']}, made {document['made']} by discreet {document['written_by']}"
    )
    same = signing.digest(document) == document["digest"]
    verdict._add("digest", None if same else "the SHA-256 of its contents is another one", "the SHA-256 of it matches")
    _signature(verdict, document, wanted)
    built = _mechanism(verdict, document)
    _attempt(verdict, "chain", lambda: _chain(document, built))
    if built is not None:
        _attempt(verdict, "population", lambda: _population(document, *built))
    if verdict.holds and isinstance(document["not_checked"], list):
        verdict.unchecked += [str(line) for line in document["not_checked"]]
    return verdict


def _attempt(verdict: Verdict, name: str, what: Callable[[], str]) -> None:
    """Adds a check that raises what is wrong, and returns what was found."""
    try:
        said = what()
    except Exception as error:  # whatever somebody wrote into it
        verdict._add(
            name, str(error) if isinstance(error, DiscreetError) else f"malformed ({type(error).__name__})", ""
        )
    else:
        verdict._add(name, None, said)


def _signature(verdict: Verdict, document: dict[str, Any], wanted: str | None) -> None:
    signer, signature = document["signer"], document["signature"]
    if signer is None:
        wrong = "it is not signed, and a key was given" if wanted else "a signature without a signer"
        if wanted is not None or signature is not None:
            verdict._add("signature", wrong, "")
        verdict.unchecked.append("who made it: it is not signed")
        return
    if not isinstance(signer, dict) or set(signer) != {"algorithm", "key"} or signer["algorithm"] != "Ed25519":
        verdict._add("signature", "its signer must be a key of Ed25519", "")
        return
    own = str(signer["key"])
    held = signing.signed_by(document, own, signature)
    verdict._add("signature", None if held else "it was not made with its key for these contents", f"by the key {own}")
    if wanted is not None:
        verdict._add("key", None if own == wanted else f"it is signed with {own}, not with the key given", "that given")
    else:
        verdict.unchecked.append(
            "that the signer is who they say: compare the key with one that you were given elsewhere, --key"
        )


def _mechanism(verdict: Verdict, document: dict[str, Any]) -> tuple[LearningAgent, Config] | None:
    """Builds the mechanism anew and compares all that follows from it."""
    try:
        found = records.from_plain(document["mechanism"]["blueprint"])
        config = _config(verdict, document, found)
        agent, off = _built(found)
        again = json.loads(signing.written(described(agent, config)))
        guarantee = promised(agent, config)
    except Exception as error:  # whatever somebody wrote into it, it is no mechanism then
        why = str(error) if isinstance(error, DiscreetError) else type(error).__name__
        verdict._add("mechanism", f"it cannot be built from its parameters by discreet {__version__}: {why}", "")
        return None
    verdict.guarantee, verdict.epsilon, verdict.delta = str(guarantee), guarantee.epsilon, guarantee.delta
    other = differences(again["mechanism"], document["mechanism"], "mechanism")
    other += differences(again["simulation"], document["simulation"], "simulation")
    verdict._add("mechanism", listed("not what its parameters give", other), f"{agent.name}, {agent.mechanism.name}")
    _promise(verdict, again["promise"], document["promise"], agent)
    if __version__ == document["written_by"] == document["discreet"]:
        words = [place for name in _WORDS for place in differences(again[name], document[name], name)]
        verdict._add("words", listed("not what follows from the guarantee", words), "they follow from the guarantee")
        if not isinstance(agent.privacy, Shuffle):
            verdict._add("noise", listed("not what discreet calibrates", off), "as discreet calibrates it")
    else:
        verdict.unchecked.append(f"its words, and how its noise was calibrated: this is discreet {__version__}")
    return agent, config


def _promise(verdict: Verdict, again: dict[str, Any], stated: Any, agent: LearningAgent) -> None:
    """Compares what is promised with what was computed."""
    words = isinstance(stated, dict) and stated.get("words")
    off = differences(again, {**stated, "words": again["words"]} if words else stated, "promise")
    epsilon, delta = (again["guarantee"][name] for name in ("epsilon", "delta"))
    if not off and epsilon is not None and abs(epsilon - stated["guarantee"]["epsilon"]) > TOLERANCE:
        off = ["promise.guarantee.epsilon"]
    shown = f"ε = {epsilon!r} at δ = {delta!r}"
    verdict._add("epsilon", listed(f"not what is proven, {shown}", off), f"{shown}, as stated, with its assumptions")
    once, asked = agent.guarantee, agent.privacy
    if getattr(asked, "calibration", None) == "sound":
        fits = once.epsilon <= asked.epsilon and once.delta <= asked.delta  # type: ignore[union-attr]
        wrong = f"an episode has ε = {once.epsilon!r}, δ = {once.delta!r}, more than was asked for"
        verdict._add("budget", None if fits else wrong, "ε and δ of an episode are within what was asked for")


def _built(found: dict[str, Any]) -> tuple[LearningAgent, list[str]]:
    """Returns the agent with the noise that is stated, and where that is not the noise that is calibrated here."""
    if found["agent"] not in agents.AGENTS or found["agent"] == "auto":
        raise InvalidInput("it names no agent that is registered here")
    agent = agents.make(found["agent"], found["spec"], episodes=found["episodes"], seed=0, **found["options"])
    fresh, stated = (laid_open(each) for each in (agent.mechanism.calibration(), found["calibration"]))
    if differences(
        laid_open(fresh, _NOISE), laid_open(stated, _NOISE), "calibration"
    ):  # an encoder that counts more than the sensitivity allows for
        raise InvalidInput("what was calibrated is not for this mechanism")
    off = differences(fresh, stated, "calibration", _CALIBRATED, whole=True)
    agent.mechanism.recalibrate(found["calibration"])
    return agent, off


def _config(verdict: Verdict, document: dict[str, Any], found: dict[str, Any]) -> Config:
    """Returns the configuration, if the mechanism is what it asks for."""
    given = dict(document["config"])
    if "seed" in given or given["name"] != document["deployment"] or document["state"] not in _STATES:
        raise InvalidInput("its configuration, name and state do not belong together")
    asked, spec, world = dict(given["agent"]), found["spec"], given["world"]
    if asked.get("name", "auto") not in agents.AGENTS:
        raise InvalidInput("its configuration names no agent that is registered here")
    strange = "env" in world and str(world["env"]).partition(":")[0] not in ENVIRONMENTS
    if strange:  # nothing is imported or read because a statement says so
        verdict.unchecked.append("that the sizes are those of the environment, which is not one of discreet's")
        given["world"] = {"states": spec.states, "actions": spec.actions, "horizon": spec.horizon}
    config, options = read(given), found["options"]
    name = config.agent["name"]
    chosen = {key: value for key, value in config.agent.items() if key not in ("name", "episodes")}
    agrees = (
        name in ("auto", found["agent"])
        and document["resolved"] == found["agent"]
        and config.episodes == found["episodes"]
        and (strange or config.spec == spec)
        and config.trust() == options["privacy"]
        and all(options[key] == value for key, value in chosen.items())
    )
    if not agrees:
        raise InvalidInput("its parameters are not those of its configuration")
    return config


def _chain(document: dict[str, Any], built: tuple[LearningAgent, Config] | None) -> str:
    """Follows the hash chain from the configuration to the last release."""
    link = genesis(document)
    if document["chain"] != link:
        raise InvalidInput("it does not begin with the configuration")
    for number, release in enumerate(document["releases"], start=1):
        link = chained(link, release["hash"])
        if release != {"version": number, "users": release["users"], "hash": release["hash"], "chain": link}:
            raise InvalidInput(f"it is broken at version {number}")
    releases, plans = len(document["releases"]), document["plans"]
    if not releases <= len(plans) <= releases + 1 or any(
        plan != {"version": number, "hash": plan["hash"]} for number, plan in enumerate(plans)
    ):
        raise InvalidInput("plans are missing, or there are too many")
    if built is not None:
        ends = [sum(built[0].batches[: number + 1]) for number in range(len(built[0].batches))]
        if [release["users"] for release in document["releases"]] != ends[:releases]:
            raise InvalidInput("batches do not have the sizes of the schedule")
    return f"{releases} releases follow from the configuration, in batches of the schedule"


def _population(document: dict[str, Any], agent: LearningAgent, config: Config) -> str:
    """Checks that the population's ledger holds this deployment, and that all of it fits."""
    guarantee = promised(agent, config)
    if document["population"] is None:
        if guarantee.notion != "none":
            raise InvalidInput("it was charged to no ledger")
        return "nothing is promised, and nothing was charged"
    found = Population.from_dict(document["population"])
    own = [charge for charge in found.charges if charge.deployment == config.name]
    if found.name != config.population or len(own) != 1:
        raise InvalidInput("its ledger is not that of its population, or does not hold it once")
    if config.population_budget not in (None, (found.budget.epsilon, found.budget.delta)):
        raise InvalidInput("its ledger has another budget than the configuration says")
    if not (close(own[0].epsilon, guarantee.epsilon) and close(own[0].delta, guarantee.delta)):
        raise InvalidInput("what was charged is not what it proves")
    _charged_again(found, guarantee, config.name)
    number, budget = len(found.charges), found.budget
    return (
        f"{number} deployment{'s' * (number != 1)} on {found.name!r}, in all ε = {found.spent:.6g} of "
        f"{budget.epsilon:.6g} at δ = {budget.delta:.3g}"
    )


def _charged_again(found: Population, guarantee: Any, name: str) -> None:
    """Raises unless the filter was charged with the very guarantee."""
    document = found.to_dict()
    place = [charge["deployment"] for charge in document["charges"]].index(name)
    stated = document["ledger"]["charges"][place]
    before = {**document, "charges": document["charges"][:place]}
    before["ledger"] = {**document["ledger"], "charges": document["ledger"]["charges"][:place]}
    again = Population.from_dict(before).charged(guarantee, name).to_dict()
    if differences(again["ledger"]["charges"][-1], stated, "charge"):
        raise InvalidInput("what its ledger was charged is not what it proves")
