"""A server, or a shuffler, in a process of its own: takes orders over a socket, and may die at a named point."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import live
from discreet.live import points
from discreet.live.stores import sql
from tests.live.faults import plants

if TYPE_CHECKING:
    import socket

__all__ = ["main"]

_HANDS = 4  # requests that a process works on at once


class Arms:
    """Ends this process when a point is reached for the n-th time, as a power cut would: nothing is tidied up."""

    def __init__(self) -> None:
        self.point, self.left = "", 0

    def __call__(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Server:
    """A deployment that is asked over a socket."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.deployment = live.open(order["url"], order["name"])

    def start(self, person: str, now: float) -> dict[str, Any]:
        ticket = self.deployment.start(person, now)
        plan = self.deployment.plan(ticket.version)
        said: dict[str, Any] = {"version": ticket.version, "slot": ticket.slot, "plan": plan.hash}
        if ticket.encoder is not None:
            said |= {"token": ticket.token, "encoder": ticket.encoder.to_json(), "by": ticket.report_by}
        return said

    def report(self, token: str, report: str, now: float) -> dict[str, Any]:
        return {"said": self.deployment.report(token, report, now)}

    def close(self, now: float) -> dict[str, Any]:
        released = self.deployment.close_due(now)
        row = self.deployment._row()
        return {"released": released, "version": row.version, "closing": bool(row.closing)}

    def releases(self) -> dict[str, Any]:
        found = self.deployment.store.do(lambda db: db.rows(sql.HASHES, name=self.deployment.name))
        return {"releases": [[version, digest, chain] for version, _, digest, chain in found]}

    def terms(self, version: int) -> dict[str, Any]:
        found = self.deployment.terms(version)._asdict()
        return {"terms": {**found, "key": found["key"].hex()}}

    def receive(self, version: int, ones: list[int], messages: int, users: int) -> dict[str, Any]:
        return {"said": self.deployment.receive(version, np.array(ones, dtype=np.int64), messages, users)}


class Shuffler:
    """A shuffler that is asked over a socket; whoever asks brings the terms along, as a server would send them."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._terms: dict[int, live.Terms] = {}
        self.shuffler = live.Shuffler(order["url"], self._terms.__getitem__)

    def _agree(self, terms: dict[str, Any]) -> int:
        found = live.Terms(**{**terms, "key": bytes.fromhex(terms["key"])})
        self._terms[found.version] = found
        return found.version

    def report(self, token: str, report: str, terms: dict[str, Any]) -> dict[str, Any]:
        self._agree(terms)
        return {"said": self.shuffler.report(token, report)}

    def close(self, terms: dict[str, Any]) -> dict[str, Any]:
        batch = self.shuffler.close(self._agree(terms))
        return {"ones": batch.ones.tolist(), "messages": batch.messages, "users": batch.users}


class _Desk:
    """Reads orders, hands them to a few threads and sends the answers."""

    def __init__(self, channel: socket.socket, arms: Arms) -> None:
        self._channel, self._arms = channel, arms
        self._party: Server | Shuffler
        self._waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._talking = threading.Lock()

    def say(self, answer: dict[str, Any]) -> None:
        with self._talking:
            self._channel.sendall(json.dumps(answer).encode() + b"\n")

    def _hand(self) -> None:
        while True:
            order = self._waiting.get()
            number, what = order.pop("id"), order.pop("do")
            try:
                answer = getattr(self._party, what)(**order)
            except Exception as error:  # whatever it is, the driver judges it
                answer = {"error": type(error).__name__, "message": str(error)}
            self.say({"id": number, **answer})

    def work(self, party: Server | Shuffler) -> None:
        self._party = party
        self.say({"id": 0, "pid": os.getpid()})
        for _ in range(_HANDS):
            threading.Thread(target=self._hand, daemon=True).start()
        with self._channel.makefile("rb") as lines:
            for line in lines:
                order = json.loads(line)
                if order["do"] == "arm":
                    self._arms.point, self._arms.left = order["point"], order["nth"]
                else:
                    self._waiting.put(order)


def main(channel: socket.socket, order: dict[str, Any]) -> None:
    """Works until the other end is closed."""
    arms = Arms()
    points.watch(arms)
    desk = _Desk(channel, arms)
    plants.install(order.get("bug"), desk.say)
    desk.work(Shuffler(order) if order["role"] == "shuffler" else Server(order))
