"""The service over HTTP, as an app, a shuffler, a viewer and somebody with bad intentions meet it."""

from __future__ import annotations

import json
import socket

import httpx
import numpy as np
import pytest

import discreet as dc
from discreet.client import Client, Episode
from discreet.errors import Closed, InvalidInput, InvalidPersonalData, InvalidToken
from discreet.privatizers.codec import from_json, to_wire
from discreet.service.access import Access, KeyFile, new_key
from discreet.service.endpoints import ENDPOINTS, document
from tests.live.people import MDP, config
from tests.service.conftest import until


def play(client, people, rng, prefix="p"):
    """Everybody starts, plays and reports; returns the episodes."""
    found = []
    for k in range(people):
        episode = client.start(person=f"{prefix}{k}")
        client.report(episode, MDP.sample(episode.policy, rng))
        found.append(episode)
    return found


def test_people_are_counted_after_the_batch_closes(deployed):
    """The whole way: start, play, report, closed by the service itself, seen by a viewer."""
    service = deployed()
    with Client(service.url, service.key, "steps", trusted=True) as client, service.client() as http:
        episodes = play(client, 5, np.random.default_rng(0))
        assert all(episode.collected for episode in episodes)
        until(lambda: http.get("/v1/deployments/steps").json()["version"] == 1)
        releases = http.get("/v1/deployments/steps/releases").json()
        assert [release["version"] for release in releases] == [1]
        assert releases[0]["users"] == 5
        plans = [http.get(f"/v1/deployments/steps/plans/{version}").json() for version in (0, 1)]
        assert [plan["version"] for plan in plans] == [0, 1]
        assert http.get("/v1/deployments/steps/plans/2").status_code == 404
        ledger = http.get("/v1/ledger").json()
        assert ledger[0]["population"] == "steps"
        assert 0.99 < ledger[0]["spent"] <= ledger[0]["epsilon"] * (1 + 1e-6)
        statement = http.get("/v1/deployments/steps/statement")
        assert statement.status_code == 200
        with pytest.raises(Closed):
            client.report(episodes[0], episodes[0].encoder.absent())


def test_under_shuffle_the_server_gets_whole_batches_only(deployed, run, tmp_path):
    service = deployed("binomial", report_within=10, timing="private")
    folder = tmp_path / "mixing"
    folder.mkdir()
    mixing = run("shuffler", "--server", service.url, "--server-key", service.key, folder=folder)
    pins = {"epsilon": 2.0, "delta": 1e-4, "users": 20}
    to = {"shuffler": mixing.url, "shuffler_key": mixing.key}
    with Client(service.url, service.key, "steps", **to, **pins) as client, service.client() as http:
        rng = np.random.default_rng(0)
        episodes = [client.start(person=f"p{k}") for k in range(20)]
        with httpx.Client(headers={"authorization": f"Bearer {mixing.key}"}) as device:
            for episode in episodes[:15]:
                body = {
                    "token": episode.token,
                    "report": to_wire(episode.encoder.encode(MDP.sample(episode.policy, rng))),
                }
                assert client.report(episode, episode.encoder.absent()) == "recorded"
                sent = device.post(f"{mixing.url}/v1/episodes/{episode.id}/report", json=body)  # again, and another
                assert sent.json() == {"status": "recorded"}
            for name in ("x%3Fy", "nothing", "%23"):
                asked = device.post(f"{mixing.url}/v1/episodes/{name}.0.0/report", json=body)
                assert asked.status_code in (403, 404, 422)
            refused = device.post(
                f"{mixing.url}/v1/episodes/steps.0.3/report", json={"token": episodes[4].token, "report": "x"}
            )
            assert refused.status_code == 403
        assert (
            http.post(f"/v1/episodes/{episodes[0].id}/report", json=body | {"token": episodes[0].token}).status_code
            == 422
        )
        until(lambda: http.get("/v1/deployments/steps").json()["version"] == 1)


def test_steps_are_played_at_a_trusted_server(deployed):
    service = deployed()
    with Client(service.url, service.key, "steps", trusted=True) as client:
        episode = client.start(person="a")
        rng, state = np.random.default_rng(0), 0
        for number in range(1, 5):
            action = client.step(episode, number, state, None if number == 1 else 0.5)
            assert action == int(episode.policy[number - 1, state])
            assert client.step(episode, number, 2 - state, None if number == 1 else 0.1) == action
            state = int(rng.integers(0, 3))
        assert client.step(episode, 5, state, 1.0) is None


def test_a_killed_service_goes_on(deployed, run):
    """kill -9 between a start and its report: whoever was answered is on the disk."""
    service = deployed()
    with Client(service.url, service.key, "steps", trusted=True) as client:
        episodes = [client.start(person=f"p{k}") for k in range(5)]
        client.report(episodes[0], episodes[0].encoder.absent())
    service.kill()
    again = run("serve", "--database", "sqlite:///steps.db")
    with Client(again.url, again.key, "steps", trusted=True) as client, again.client() as http:
        assert client.start(person="p1").token == episodes[1].token
        for episode in episodes:
            assert client.report(episode, episode.encoder.absent()) == "recorded"
        until(lambda: http.get("/v1/deployments/steps").json()["version"] == 1)
    assert again.stop() == 0


def _open(http, version):
    """Returns a deployment whose batch of that number takes people; None while there is none."""
    found = http.get("/v1/deployments/steps").json()
    return found if found["version"] == version and found["slots"] else None


def test_several_workers_share_a_database(deployed):
    service = deployed("dp-ucbvi", "--workers", "2")
    with Client(service.url, service.key, "steps", trusted=True) as client, service.client() as http:
        for k in range(4):
            play(client, 5, np.random.default_rng(k), prefix=f"{k} ")
            found = until(lambda k=k: _open(http, k + 1))  # released, and planned: else whoever comes is not collected
            assert found["slots"] == 5
    assert service.stop() == 0


ASKED = {
    "start": ("POST", "/v1/episodes", {"deployment": "steps", "person": "a"}),
    "create": ("POST", "/v1/deployments", {"name": "x"}),
    "list": ("GET", "/v1/deployments", None),
    "ledger": ("GET", "/v1/ledger", None),
    "batches": ("GET", "/v1/batches", None),
}


def test_keys_open_what_their_scopes_say(deployed, tmp_path):
    """Would catch an endpoint without a guard, and a revoked key that still works."""
    file = KeyFile(tmp_path / "keys.json")
    keys = {scope: file.add([scope], scope) for scope in ("client", "viewer", "shuffler", "admin")}
    service = deployed("dp-ucbvi", "--keys", "keys.json")
    scopes = {endpoint.name: endpoint.scopes for endpoint in ENDPOINTS}
    assert {endpoint.name for endpoint in ENDPOINTS if not endpoint.scopes} == {"healthy", "readiness"}
    for name, (method, path, body) in ASKED.items():
        for scope, key in keys.items():
            with service.client(key) as http:
                status = http.request(method, path, json=body).status_code
            assert (status == 403) == (scope not in scopes[name]), (name, scope, status)
        for header in (
            "",
            "Bearer",
            "Bearer dk_00000000_" + "a" * 43,
            "Basic x",
            keys["client"],
            "Bearer " + "x" * 9000,
        ):
            found = httpx.request(method, service.url + path, json=body, headers={"authorization": header})
            assert found.status_code == 401
    file.revoke(keys["viewer"].split("_")[1])
    with service.client(keys["viewer"]) as http:
        until(lambda: http.get("/v1/deployments").status_code == 401)
    text = (tmp_path / "keys.json").read_text()
    assert not any(key.split("_", 2)[2] in text for key in keys.values())
    assert (tmp_path / "keys.json").stat().st_mode & 0o077 == 0


def test_a_key_file_that_is_gone_opens_nothing(tmp_path, monkeypatch):
    """Would catch old keys that stay valid, and an error that names the file to whoever asks."""
    monkeypatch.setattr("discreet.service.access._LOOK", -1.0)
    file = KeyFile(tmp_path / "keys.json")
    text = file.add(["client"])
    access = Access(file)
    assert access.scopes(f"Bearer {text}") == ("client",)
    kept = file.path.read_text()
    for damaged in ("", "{", None):
        file.path.unlink() if damaged is None else file.path.write_text(damaged)
        assert access.scopes(f"Bearer {text}") is None
    file.path.write_text(kept)
    assert access.scopes(f"Bearer {text}") == ("client",)


def test_a_shuffler_is_never_shown_the_servers_key():
    """Would catch a client that sends one party's key to the other."""
    import httpx as library

    seen = {}

    def answer(request):
        seen[request.url.host] = request.headers.get("authorization")
        return library.Response(200, json={"status": "recorded"})

    encoder = dc.live.read(config("binomial")).make(None).plan.encoder
    episode = Episode("steps.0.0", True, 0, np.zeros((4, 3), dtype=np.int64), encoder, "0.0.x", None, "shuffler")
    for key, expected in ((None, None), ("dk_own", "Bearer dk_own")):
        given = {"trusted": True, "shuffler": "http://mixer", "shuffler_key": key}
        with Client("http://server", "dk_server", "steps", **given, transport=library.MockTransport(answer)) as client:
            client.report(episode, None)
            client.erase(episode)
        assert seen == {"mixer": expected, "server": "Bearer dk_server"}


def test_access_compares_whole_keys():
    key, text = new_key(["client"])
    access = Access([key])
    assert access.scopes(f"Bearer {text}") == ("client",)
    for wrong in (None, "", text, f"Bearer {text[:-1]}", f"Bearer {text}x", f"Bearer {text[:-1]}~"):
        assert access.scopes(wrong) is None


BAD = [
    (b"", 400),
    (b"{", 400),
    (b"[" * 100_000, 422),
    (b'{"person": ' + b"[" * 100_000, 422),
    (b'{"deployment": "steps", "person": NaN}', 400),
    (b"\xff\xfe", 400),
    (b"null", 422),
    (b'{"deployment": 7}', 422),
    (b'{"deployment": "steps", "person": "canary", "more": 1}', 422),
    (b'{"deployment": "steps", "person": ""}', 422),
    (b'{"deployment": "nothing"}', 404),
    (b'{"deployment": "steps"}', 422),
    (b'{"deployment": "' + b"x" * 100 + b'"}', 422),
    (b" " * (2**24 + 1), 413),
]


def test_bad_requests_are_refused_and_nothing_is_repeated(deployed):
    """Would catch a 5xx, an answer that echoes the request, and a slot that is used up."""
    service = deployed()
    with service.client() as http:
        for body, status in BAD:
            found = http.post("/v1/episodes", content=body)
            assert found.status_code == status, body[:60]
            problem = found.json()
            assert found.headers["content-type"] == "application/problem+json"
            assert problem["status"] == status
            assert "canary" not in found.text
            assert len(found.content) < 400
        assert http.get("/v1/deployments/steps").json()["issued"] == 0
        episode = http.post("/v1/episodes", json={"deployment": "steps", "person": "a"}).json()
        for token in ("", "0.0.x", episode["token"][:-1] + "A", "1" + episode["token"]):
            body = {"token": token, "report": "canary"}
            found = http.post(f"/v1/episodes/{episode['id']}/report", json=body)
            assert found.status_code in (403, 422)
            assert "canary" not in found.text
        encoder = from_json(json.dumps(episode["plan"]["encoder"]))
        other = http.post("/v1/episodes", json={"deployment": "steps", "person": "b"}).json()
        body = {"token": episode["token"], "report": to_wire(encoder.absent())}
        assert http.post(f"/v1/episodes/{other['id']}/report", json=body).status_code == 403
        for path in ("/v1/episodes/x/report", "/v1/episodes/steps.0.x/report", "/v1/episodes/a.b.c.d/report"):
            assert http.post(path, json=body).status_code == 404
        assert http.post("/nothing").status_code == 404
        assert http.delete("/v1/deployments").status_code == 405
        assert http.get("/healthz").json() == {"status": "ok"}


def test_slow_and_endless_heads_are_cut_off(deployed):
    """Slow-loris: would catch a connection that is held open, and a head that fills the memory."""
    service = deployed()
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x-long: " + b"a" * 100_000)
        assert b" 431 " in connection.recv(1000)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET / HT")
        assert b" 408 " in connection.recv(1000)


def test_headers_that_browsers_obey(deployed):
    service = deployed("dp-ucbvi", "--origin", "https://app.example")
    with service.client() as http:
        found = http.get("/healthz", headers={"origin": "https://app.example"})
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert found.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-origin" not in http.get("/healthz", headers={"origin": "https://evil"}).headers
        asked = http.options("/v1/episodes", headers={"origin": "https://app.example"})
        assert asked.status_code == 204
        assert "server" not in found.headers


def test_rates_are_limited(deployed):
    service = deployed("dp-ucbvi", "--rate", "5")
    with service.client() as http:
        found = [http.get("/v1/deployments").status_code for _ in range(30)]
    assert 429 in found
    assert found[0] == 200


def test_the_document_describes_every_endpoint(deployed):
    """Would catch an endpoint that is not in the document, or a type that cannot be written down."""
    found = document()
    listed = {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}
    assert listed == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    service = deployed()
    assert httpx.get(service.url + "/openapi.json").json() == json.loads(json.dumps(found))


def test_clients_hold_their_server_to_a_promise(deployed):
    """Would catch a device that sends to a server which hides less than its owner accepts."""
    service = deployed("discreet-vi local")
    with pytest.raises(InvalidInput, match="trusted"):
        Client(service.url, service.key, "steps")
    with (
        Client(service.url, service.key, "steps", epsilon=1.0) as weak,
        pytest.raises(InvalidInput),
    ):
        weak.start(person="a")
    with Client(service.url, service.key, "steps", epsilon=3.1) as client:
        episode = client.start(person="a")
        assert client.report(episode, MDP.sample(episode.policy, np.random.default_rng(0))) == "recorded"
        with pytest.raises((InvalidToken, InvalidPersonalData)):
            client.report(episode.__class__(**{**vars(episode), "token": "0.0.x"}), None)


def test_without_keys_it_stays_on_loopback(tmp_path):
    from discreet.service.server import Options, serve

    with pytest.raises(InvalidInput, match="loopback"):
        serve(Options(database=f"sqlite:///{tmp_path / 'x.db'}", host="0.0.0.0"))
    with pytest.raises(InvalidInput, match="share"):
        serve(Options(database="memory:", workers=2))
