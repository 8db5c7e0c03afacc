"""Checkers for environments and agents, ours and yours.

from discreet import testing

testing.check_env(my_mdp)
testing.check_agent(lambda spec, episodes, seed: MyAgent(spec, episodes, seed))

record = testing.record(agent)  # then let people play, and
testing.replay(record, agent_made_the_same_way)  # rebuild every policy from what was released
"""

from discreet.testing.checks import check_agent, check_env
from discreet.testing.replaying import Record, record, replay

__all__ = ["Record", "check_agent", "check_env", "record", "replay"]
