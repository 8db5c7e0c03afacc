"""For apps and devices: start an episode at a service, play it, report it. Needs ``httpx``.

::

    from discreet.client import Client

    with Client("https://coach.example", key="dk_…", deployment="steps", epsilon=1.0) as client:
        episode = client.start(person="pseudonym")
        trajectory = ...                       # play episode.policy
        client.report(episode, trajectory)     # encoded here; sent until it is acknowledged

Repeating is safe: whatever did not arrive, or whose answer was lost, is sent again, with pauses that grow and vary.

A client holds its server to a promise: ``epsilon`` and ``delta`` are the largest that its owner accepts. An encoder
that hides less is refused before anything of a person leaves the device.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from discreet.errors import (
    Closed,
    InvalidInput,
    InvalidPersonalData,
    InvalidToken,
    LiveError,
    MissingExtra,
    Unavailable,
)
from discreet.privacy.messages import Report
from discreet.privatizers.codec import from_json, to_wire

if TYPE_CHECKING:
    from collections.abc import Generator

    import httpx
    import numpy as np
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise import Source
    from discreet.privatizers.codec import AnyEncoder

__all__ = ["AsyncClient", "Client", "Episode", "Refused"]

T = TypeVar("T")
_FIRST, _LONGEST = 0.1, 10.0  # seconds of the first pause, and of the longest
_REPEATED = (408, 429, 500, 502, 503, 504)


class Refused(LiveError):
    """The service refused a request; ``status`` is HTTP's."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True, eq=False)
class Episode:
    """What a start gave.

    Attributes:
        id: Of the episode; None if it is not collected.
        collected: Whether a report is wanted.
        version: Of the plan.
        policy: What to play: actions (H, S), or probabilities (H, S, A).
        encoder: What makes the report; None if it is not collected.
        token: Of the slot.
        report_by: Until when the report is taken, in seconds since 1970.
        report_to: ``"server"`` or ``"shuffler"``.
    """

    id: str | None
    collected: bool
    version: int
    policy: NDArray[np.int64] | NDArray[np.float64]
    encoder: AnyEncoder | None
    token: str | None
    report_by: float | None
    report_to: str

    def __repr__(self) -> str:
        return f"<Episode of version {self.version}, {'collected' if self.collected else 'not collected'}>"


@dataclass(frozen=True)
class _Ask:
    """One request."""

    method: str
    url: str
    body: dict[str, Any] | None
    headers: dict[str, str]


class _Common(Generic[T]):
    """What both clients do: requests out, answers in. How they travel is the subclass's."""

    def __init__(
        self,
        url: str,
        key: str,
        deployment: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        users: int | None = None,
        trusted: bool = False,
        shuffler: str | None = None,
        shuffler_key: str | None = None,
        patience: float = 60.0,
        transport: Any = None,
    ) -> None:
        """Connects to a service.

        Args:
            url: Of the service.
            key: With the scope ``client``.
            deployment: Its name.
            epsilon: The largest ε that the owner of the device accepts, with ``delta``; needed unless ``trusted``.
            delta: The largest δ.
            users: Under Shuffle: how many the owner trusts the shuffler to bring together.
            trusted: Whether the server may see raw data (trust model central).
            shuffler: URL of the shuffler, if reports go there.
            shuffler_key: A key of the shuffler's own; the server's key is never shown to it.
            patience: Seconds in which a request is repeated.
            transport: Of ``httpx``, for tests.
        """
        if epsilon is None and not trusted:
            raise InvalidInput(
                "say which epsilon the device accepts at most, or trusted=True if the server may see raw data"
            )
        self._url, self._deployment, self._shuffler = url.rstrip("/"), deployment, shuffler
        self._pins = {} if trusted else {"epsilon": epsilon, "delta": delta, "users": users}
        self._headers, self._patience, self._transport = {"authorization": f"Bearer {key}"}, patience, transport
        self._shuffler_headers = {} if shuffler_key is None else {"authorization": f"Bearer {shuffler_key}"}
        self._encoders: dict[str, AnyEncoder] = {}

    def _starting(self, person: str | None) -> Generator[_Ask, Any, Episode]:
        body = {"deployment": self._deployment} | ({} if person is None else {"person": person})
        found = yield _Ask("POST", f"{self._url}/v1/episodes", body, self._headers)
        return self._episode(found)

    def _episode(self, found: dict[str, Any]) -> Episode:
        import numpy as np

        plan = found["plan"]
        encoder = None
        if found["collected"]:
            text = json.dumps(plan["encoder"])
            if text not in self._encoders:
                self._encoders = {text: from_json(text, **self._pins)}  # type: ignore[arg-type]
            encoder = self._encoders[text]
        names = ("id", "collected", "token", "report_by", "report_to")
        policy = np.array(plan["policy"])
        return Episode(version=plan["version"], policy=policy, encoder=encoder, **{name: found[name] for name in names})

    def _reporting(
        self, episode: Episode, done: Trajectory | Report | None, source: Source | None
    ) -> Generator[_Ask, Any, str]:
        if not episode.collected or episode.encoder is None:
            return "not collected"
        if isinstance(done, Report):
            report = done
        else:
            report = episode.encoder.absent(source) if done is None else episode.encoder.encode(done, source)
        base, headers = self._url, self._headers
        if episode.report_to == "shuffler":
            if self._shuffler is None:
                raise InvalidInput("reports of this deployment go to a shuffler: say where it is")
            base, headers = self._shuffler.rstrip("/"), self._shuffler_headers
        body = {"token": episode.token, "report": to_wire(report)}
        found = yield _Ask("POST", f"{base}/v1/episodes/{episode.id}/report", body, headers)
        status: str = found["status"]
        return status

    def _stepping(
        self, episode: Episode, number: int, state: int, reward: float | None
    ) -> Generator[_Ask, Any, int | None]:
        body = {"token": episode.token, "state": int(state)} | ({} if reward is None else {"reward": float(reward)})
        found = yield _Ask("PUT", f"{self._url}/v1/episodes/{episode.id}/steps/{number}", body, self._headers)
        action: int | None = found["action"]
        return action

    def _erasing(self, episode: Episode) -> Generator[_Ask, Any, str]:
        headers = {**self._headers, "discreet-token": episode.token or ""}
        found = yield _Ask("DELETE", f"{self._url}/v1/episodes/{episode.id}", None, headers)
        status: str = found["status"]
        return status

    def _read(self, response: httpx.Response) -> Any:
        """Returns an answer, or None if the request is to be sent again."""
        if response.status_code in _REPEATED:
            return None
        if response.is_success:
            return response.json()
        try:
            detail = str(response.json()["detail"])
        except (KeyError, TypeError, ValueError):
            detail = f"the service answered {response.status_code}"
        raise _error(response.status_code, detail)

    def _pauses(self) -> Generator[float, None, None]:
        """Pauses between tries, until patience is over: they grow, and vary so that clients do not come together."""
        end, longest = time.monotonic() + self._patience, _FIRST
        while (left := end - time.monotonic()) > 0:
            yield min(random.uniform(longest / 2, longest), left)
            longest = min(2 * longest, _LONGEST)

    def _tired(self) -> Unavailable:
        return Unavailable(f"the service did not answer within {self._patience:g} s; to do the same again is safe")


def _error(status: int, detail: str) -> Exception:
    kinds = {410: Closed, 403: InvalidToken, 422: InvalidPersonalData}
    return kinds[status](detail) if status in kinds else Refused(status, detail)


def _library() -> Any:
    try:
        import httpx
    except ImportError:
        raise MissingExtra("httpx", "client") from None
    return httpx


class Client(_Common[Any]):
    """Talks to a service, and waits for its answers. See `_Common.__init__` for what it takes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _http(self) -> Any:
        if "_client" not in vars(self):
            self._client = _library().Client(timeout=10.0, transport=self._transport)
        return self._client

    def _do(self, asked: Generator[_Ask, Any, Any]) -> Any:
        try:
            ask = next(asked)
            while True:
                ask = asked.send(self._sent(ask))
        except StopIteration as done:
            return done.value

    def _sent(self, ask: _Ask) -> Any:
        for pause in self._pauses():
            try:
                found = self._read(self._http.request(ask.method, ask.url, json=ask.body, headers=ask.headers))
            except _library().TransportError:
                found = None
            if found is not None:
                return found
            time.sleep(pause)
        raise self._tired()

    def start(self, person: str | None = None) -> Episode:
        """Starts an episode; the same person gets the same slot again while its batch is open."""
        found: Episode = self._do(self._starting(person))
        return found

    def report(self, episode: Episode, done: Trajectory | Report | None, source: Source | None = None) -> str:
        """Encodes what a person did, here, and sends it until it is acknowledged; None is somebody who did nothing.

        Noise comes from the operating system, unless a source is given.
        """
        found: str = self._do(self._reporting(episode, done, source))
        return found

    def step(self, episode: Episode, number: int, state: int, reward: float | None = None) -> int | None:
        """Plays a step at a trusted server; see `discreet.live.Deployment.step`."""
        found: int | None = self._do(self._stepping(episode, number, state, reward))
        return found

    def erase(self, episode: Episode) -> str:
        """Erases an episode, if its batch is not closed."""
        found: str = self._do(self._erasing(episode))
        return found

    def close(self) -> None:
        """Ends the connection."""
        if "_client" in vars(self):
            self._client.close()


class AsyncClient(_Common[Any]):
    """The same for an event loop."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _http(self) -> Any:
        if "_client" not in vars(self):
            self._client = _library().AsyncClient(timeout=10.0, transport=self._transport)
        return self._client

    async def _do(self, asked: Generator[_Ask, Any, Any]) -> Any:
        try:
            ask = next(asked)
            while True:
                ask = asked.send(await self._sent(ask))
        except StopIteration as done:
            return done.value

    async def _sent(self, ask: _Ask) -> Any:
        for pause in self._pauses():
            try:
                found = self._read(await self._http.request(ask.method, ask.url, json=ask.body, headers=ask.headers))
            except _library().TransportError:
                found = None
            if found is not None:
                return found
            await asyncio.sleep(pause)
        raise self._tired()

    async def start(self, person: str | None = None) -> Episode:
        """See `Client.start`."""
        found: Episode = await self._do(self._starting(person))
        return found

    async def report(self, episode: Episode, done: Trajectory | Report | None, source: Source | None = None) -> str:
        """See `Client.report`."""
        found: str = await self._do(self._reporting(episode, done, source))
        return found

    async def step(self, episode: Episode, number: int, state: int, reward: float | None = None) -> int | None:
        """See `Client.step`."""
        found: int | None = await self._do(self._stepping(episode, number, state, reward))
        return found

    async def erase(self, episode: Episode) -> str:
        """See `Client.erase`."""
        found: str = await self._do(self._erasing(episode))
        return found

    async def close(self) -> None:
        """Ends the connection."""
        if "_client" in vars(self):
            await self._client.aclose()
