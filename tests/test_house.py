"""The design itself: who runs when, who reaches whom, and what a device needs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.noise import Role, seed_sequence, stream
from discreet.privatizers.codec import ENCODERS, from_json, from_wire, to_wire
from tests.golden import plain

SOURCE = Path(dc.__file__).parent
MDP = dc.envs.riverswim(states=3, horizon=4)
#: One agent of every kind of question.
AGENTS = {
    "dp-ucbvi central": ("dp-ucbvi", 40, {"privacy": dc.Central(1.0), "update_every": 5}),
    "dp-ucbvi local": ("dp-ucbvi", 40, {"privacy": dc.Local(2.0, sum="sampled"), "update_every": 5}),
    "discreet-vi central": ("discreet-vi", 600, {"privacy": dc.Central(3.0, 1e-5), "update_every": 60}),
    "discreet-vi local": ("discreet-vi", 200, {"privacy": dc.Local(3.0), "update_every": 20}),
    "discreet-vi shuffle": ("discreet-vi", 200, {"privacy": dc.Shuffle(3.0, 1e-4), "update_every": 40}),
    "sdp-pe shuffle": ("sdp-pe", 200, {"privacy": dc.Shuffle(3.0, 1e-4), "stationary": True}),
    "sdp-pe central": ("sdp-pe", 200, {"privacy": dc.Central(3.0, 1e-4)}),
    "rlsvi": ("rlsvi", 40, {"privacy": dc.Central(1.0, 1e-6), "update_every": 5}),
    "linopt-vi": ("linopt-vi", 40, {"privacy": dc.Central(5.0, 1e-5), "update_every": 5}),
}
#: What may run at a user: encoders, layouts, the plan itself, randomness, and the environment's own facts.
AT_THE_USER = {
    *("encode", "layout", "randomisers", "messages", "rounds", "source", "fast", "trajectory", "spec", "linear"),
    *("errors", "codec"),
}


def make(case, seed=0):
    name, episodes, options = AGENTS[case]
    return dc.agents.make(name, MDP.spec, episodes=episodes, seed=seed, **options)


def visited(call):
    """Returns what a call returns, and which of our modules ran in it."""
    found = set()

    def watch(frame, event, _):
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("discreet."):
            found.add(name)

    sys.setprofile(watch)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return result, found


@pytest.mark.parametrize("case", AGENTS)
def test_nothing_of_the_server_runs_between_the_plan_and_the_report(case):
    """Would catch an encoder that tells the agent, a policy that is computed when it is played, a late calibration."""
    agent, rng = make(case), np.random.default_rng(0)
    plan = agent.plan
    before = (plan.hash, agent.count, agent.privatizer.version, agent.rng.bit_generator.state)
    person = MDP.sample(plan.policy(0), rng)  # the world, not ours
    for slot in range(min(plan.size, 3)):
        (policy, report), ran = visited(lambda slot=slot: (plan.policy(slot), plan.encoder.encode(person, rng)))
        assert policy.shape[:2] == (MDP.horizon, MDP.states)
        assert isinstance(report, dc.privacy.Report)
        strangers = {name for name in ran if name.split(".")[-1] not in AT_THE_USER}
        assert not strangers
        assert not {name for name in ran if name.startswith(("discreet.sums", "discreet.runtime"))}
    assert (agent.plan.hash, agent.count, agent.privatizer.version, agent.rng.bit_generator.state) == before


def test_the_watch_would_see_the_server():
    agent, rng = make("dp-ucbvi central"), np.random.default_rng(0)
    reports = [agent.encoder.encode(MDP.sample(agent.plan.policy(slot), rng), rng) for slot in range(5)]
    _, ran = visited(lambda: agent.observe(agent.shuffler(reports, rng)))
    assert {"discreet.agents.base", "discreet.privatizers.counts.serve", "discreet.sums.base"} <= ran


def reached(path):
    """Returns how a file reaches into a sum or a secret: attributes of these names that are no calls on arrays."""
    tree = ast.parse(path.read_text())
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            past = node.attr == "sum" and id(node) not in called and not isinstance(node.value, ast.Name)
            if past or node.attr in ("_books", "_secret", "secret", "open"):
                found.append(f"{path.name}:{node.lineno} .{node.attr}")
    return found


@pytest.mark.parametrize("path", sorted((SOURCE / "agents").rglob("*.py")), ids=lambda path: path.name)
def test_agents_do_not_reach_past_the_privatizer(path):
    assert reached(path) == []


def test_reaching_past_the_privatizer_would_be_seen(tmp_path):
    path = tmp_path / "agent.py"
    path.write_text(
        "class A:\n    def f(self):\n        return self.privatizer.mechanism.sum, self.privatizer._books\n"
    )
    assert len(reached(path)) == 2


DEVICE = """
import json, sys
for name in ("scipy", "numba", "dp_accounting", "gymnasium", "rich", "click", "matplotlib", "pyarrow"):
    sys.modules[name] = None
import numpy as np
from discreet.mdp import Trajectory
from discreet.privatizers.codec import from_json, to_wire
bits = np.random.PCG64()
rng, text, encoder = np.random.Generator(bits), None, None
for line in sys.stdin:
    asked = json.loads(line)
    if "state" in asked:
        bits.state = asked["state"]
        continue
    if asked["encoder"] != text:
        text, encoder = asked["encoder"], from_json(asked["encoder"])
    episode = (np.array(asked[name]) for name in ("states", "actions", "rewards"))
    print(to_wire(encoder.encode(Trajectory(*episode), rng)), flush=True)
"""


class Device:
    """Another process, which has NumPy, the encoder's JSON and the users' randomness, and nothing else."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", DEVICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def use(self, source):
        self._say(json.dumps({"state": source.mark()}))

    def _say(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def report(self, encoder, trajectory):
        asked = {name: getattr(trajectory, name).tolist() for name in ("states", "actions", "rewards")}
        self._say(json.dumps({"encoder": encoder, **asked}))
        return self._process.stdout.readline().strip()

    def close(self):
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._process.stdout.close()


@pytest.fixture(scope="module")
def device():
    found = Device()
    yield found
    found.close()


def live(agent, device, seed):
    """The protocol by hand, through JSON and the wire; returns the policies that were played."""
    people, played = stream(seed_sequence(seed), Role.PEOPLE), []
    device.use(agent.sources[Role.ENCODER])
    while agent.plan.size:
        plan = dc.agents.Plan.from_json(agent.plan.to_json())  # what travels
        reports = []
        for slot in range(plan.size):
            policy = plan.policy(slot)
            text = device.report(plan.encoder.to_json(), MDP.sample(policy, people))
            reports.append(from_wire(text, agent.plan.encoder))
            played.append(policy)
        agent.observe(agent.shuffler(reports, agent.sources[Role.SHUFFLER]))
    return played


@pytest.mark.parametrize("case", AGENTS)
def test_the_live_loop_by_hand_does_what_simulate_does(case, device):
    """Bit for bit, through JSON and a process that has only NumPy; under Shuffle with every message sent.

    Would catch an encoder that loses a bit in JSON, a schedule that a travelling encoder does not follow, a report
    that the wire rounds, a draw that only a simulation makes.
    """
    by_hand, simulated = make(case), make(case)
    played = live(by_hand, device, 3)
    result = dc.simulate(simulated, MDP, len(played), 3, block=False, messages=True)
    optimum = MDP.optimal_value
    gaps = [optimum - MDP.evaluate(policy) for policy in played]
    np.testing.assert_allclose(result.gaps, gaps, atol=1e-12)
    assert by_hand.plan.hash == simulated.plan.hash
    assert by_hand.count == simulated.count == len(played)
    assert plain(by_hand.privatizer.last) == plain(simulated.privatizer.last)


def spread(case, seeds, **how):
    """Returns the regret of several runs, on the fast path or another."""
    name, episodes, options = AGENTS[case]
    found = []
    for seed in seeds:
        agent = dc.agents.make(name, MDP.spec, episodes=4 * episodes, seed=[1, seed], **options)
        found.append(dc.simulate(agent, MDP, seed=[2, seed], **how).regret[-1])
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["discreet-vi shuffle", "sdp-pe shuffle"])
def test_messages_and_totals_have_one_law(case):
    """Regret with every message sent agrees with simulate's short cut: would catch noise that is drawn otherwise."""
    fast, sent = spread(case, range(60)), spread(case, range(60, 120), messages=True)
    error = np.sqrt(fast.var() / len(fast) + sent.var() / len(sent))
    assert abs(fast.mean() - sent.mean()) < 4 * error
    assert 0.5 < fast.std() / sent.std() < 2


def test_every_encoder_is_registered_and_travels():
    """Would catch an encoder that a device cannot read."""
    for case in AGENTS:
        encoder = make(case).plan.encoder
        assert ENCODERS[encoder.kind] is type(encoder)
        assert from_json(encoder.to_json()).to_json() == encoder.to_json()
        report = encoder.encode(MDP.sample(MDP.optimal_policy, np.random.default_rng(0)), np.random.default_rng(1))
        assert to_wire(from_wire(to_wire(report), encoder)) == to_wire(report)
