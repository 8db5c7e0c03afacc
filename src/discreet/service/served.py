"""The deployments that a worker serves: one store, an event loop, and plans as JSON that is made once."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from discreet import live
from discreet.errors import InvalidInput
from discreet.live.stores.asking import Asker
from discreet.privacy import Shuffle
from discreet.privatizers import device
from discreet.service.messages import Granted, Planned
from discreet.service.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discreet.live import Deployment
    from discreet.live.rows import Place
    from discreet.live.stores.base import Store

__all__ = ["Served", "Serving"]

_PLANS = 4


class _PlanText:
    """A plan as JSON, in pieces: what each slot is given is put together of them."""

    def __init__(self, plan: Any) -> None:
        self.ends = np.cumsum(plan.users).tolist()
        self.policies = [msgspec.Raw(json.dumps(policy.tolist()).encode()) for policy in plan.policies]
        self.rest = msgspec.Raw(json.dumps(plan.rest.tolist()).encode())
        self.encoder = msgspec.Raw(device.to_json(plan.encoder).encode())

    def policy(self, slot: int) -> msgspec.Raw:
        """Returns what a slot plays."""
        from bisect import bisect_right

        i = bisect_right(self.ends, slot)
        return self.policies[i] if i < len(self.policies) else self.rest


class Served:
    """One deployment of a worker."""

    def __init__(self, deployment: Deployment, asker: Asker) -> None:
        self.deployment, self.asker = deployment, asker
        self.shuffled = isinstance(deployment.agent.privacy, Shuffle)
        self._texts: OrderedDict[int, _PlanText] = OrderedDict()

    def text(self, version: int) -> _PlanText:
        """Returns a plan as JSON."""
        found = self._texts.get(version)
        if found is None:
            found = self._texts[version] = _PlanText(self.deployment.plan(version))
            while len(self._texts) > _PLANS:
                self._texts.popitem(last=False)
        return found

    async def start(self, person: str | None) -> Granted:
        """Gives out a slot."""
        place = await self.asker.ask(self.deployment.starting(person, None))
        return self.granted(place)

    def granted(self, place: Place) -> Granted:
        """Returns what somebody who starts is given."""
        text, deployment = self.text(place.version), self.deployment
        to = "shuffler" if self.shuffled else "server"
        if place.slot is None:
            return Granted(None, None, False, None, to, Planned(place.version, text.rest, None))
        number = f"{deployment.name}.{place.version}.{place.slot}"
        by = place.started + deployment.config.report_within
        planned = Planned(place.version, text.policy(place.slot), text.encoder)
        return Granted(number, deployment.token(place.version, place.slot), True, by, to, planned)

    async def report(self, token: str, report: str) -> str:
        """Keeps a report."""
        done = await self.asker.ask(self.deployment.reporting(token, report, None))
        return self.deployment.answered(done)


class Serving:
    """All deployments of a database."""

    def __init__(self, store: Store) -> None:
        self.store, self.asker = store, Asker(store)
        self._served: dict[str, Served] = {}
        self._opening = asyncio.Lock()

    async def get(self, name: str) -> Served:
        """Returns a deployment by its name.

        Raises:
            Problem: If there is none.
        """
        found = self._served.get(name)
        if found is None:
            async with self._opening:
                if name not in self._served:
                    try:
                        opened = await asyncio.to_thread(live.open, self.store, name)
                    except InvalidInput:
                        raise Problem(404, "there is no such deployment") from None
                    self._served[name] = Served(opened, self.asker)
                found = self._served[name]
        return found

    async def create(self, config: Mapping[str, Any]) -> Served:
        """Makes a deployment."""
        made = await asyncio.to_thread(live.create, self.store, config)
        self._served[made.name] = Served(made, self.asker)
        return self._served[made.name]

    async def names(self) -> list[str]:
        """Returns the names of all deployments."""
        return await asyncio.to_thread(live.names, self.store)
