"""All endpoints in one table: routes, scopes and the OpenAPI document are made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from discreet import __version__
from discreet.service import messages

__all__ = ["ENDPOINTS", "Endpoint", "document"]


@dataclass(frozen=True)
class Endpoint:
    """One endpoint.

    Attributes:
        method: Of the request.
        path: With parameters in braces.
        name: Of the handler.
        says: What it does, in a sentence.
        answers: The type of the answer.
        scopes: Which keys may use it; none is anybody.
        asks: The type of the request's body, if it has one.
        status: Of the answer.
        problems: What can go wrong, beside what can always go wrong.
    """

    method: str
    path: str
    name: str
    says: str
    answers: Any
    scopes: tuple[str, ...] = ()
    asks: Any = None
    status: int = 200
    problems: tuple[int, ...] = ()


_LOOK = ("viewer", "admin")
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST", "/v1/episodes", "start", "Starts an episode: gives out a slot, durably.",
        messages.Granted, ("client",), messages.Started, 201, (404, 409, 413, 422),
    ),
    Endpoint(
        "POST", "/v1/episodes/{id}/report", "report", "Takes a report; to send it again is fine.",
        messages.Recorded, ("client",), messages.Reported, 200, (404, 409, 410, 413, 422),
    ),
    Endpoint(
        "PUT", "/v1/episodes/{id}/steps/{step}", "step", "Plays a step at a trusted server; the first write wins.",
        messages.Stepped, ("client",), messages.Step, 200, (404, 409, 410, 413, 422),
    ),
    Endpoint(
        "DELETE", "/v1/episodes/{id}", "erase", "Erases an episode, by its token in the header Discreet-Token.",
        messages.Erased, ("client", "admin"), None, 200, (404,),
    ),
    Endpoint(
        "POST", "/v1/deployments", "create", "Makes a deployment, and charges its population's ledger.",
        messages.Deployed, ("admin",), dict[str, Any], 201, (402, 413, 422),
    ),
    Endpoint("GET", "/v1/deployments", "list", "Returns all deployments.", list[messages.Shown], _LOOK),
    Endpoint("GET", "/v1/deployments/{name}", "show", "Returns a deployment.", messages.Shown, _LOOK, problems=(404,)),
    Endpoint(
        "GET", "/v1/deployments/{name}/guarantee", "guarantee", "Returns what is promised.",
        dict[str, Any], _LOOK, problems=(404,),
    ),
    Endpoint(
        "GET", "/v1/deployments/{name}/releases", "releases", "Returns all that was released.",
        list[dict[str, Any]], _LOOK, problems=(404,),
    ),
    Endpoint(
        "GET", "/v1/deployments/{name}/plans/{version}", "plan", "Returns a plan.",
        dict[str, Any], (*_LOOK, "client"), problems=(404,),
    ),
    Endpoint(
        "GET", "/v1/deployments/{name}/statement", "statement", "Returns the statement for a privacy officer.",
        dict[str, Any], _LOOK, problems=(404,),
    ),
    Endpoint("GET", "/v1/ledger", "ledger", "Returns what each population has spent.", list[messages.Spent], _LOOK),
    Endpoint(
        "GET", "/v1/batches", "batches", "Returns the current batches of deployments with a shuffler.",
        list[messages.Open], ("shuffler",),
    ),
    Endpoint(
        "GET", "/v1/batches/{name}/{version}", "terms", "Returns what a shuffler must know of a batch.",
        messages.Handed, ("shuffler",), problems=(404,),
    ),
    Endpoint(
        "PUT", "/v1/batches/{name}/{version}", "receive", "Takes a whole batch from the shuffler, also again.",
        messages.Recorded, ("shuffler",), messages.Mixed, 200, (404, 413, 422),
    ),
    Endpoint("GET", "/healthz", "healthy", "Says that the process is there.", messages.Recorded),
    Endpoint("GET", "/readyz", "readiness", "Says that the database answers.", messages.Recorded),
)  # fmt: skip
_SAYS = {
    400: "The request is not JSON.",
    401: "No valid key.",
    402: "The population's budget does not allow for it.",
    403: "The key, or the token, is for something else.",
    404: "There is no such thing.",
    409: "The database is an old copy: nothing more is released from it.",
    410: "The batch is closed, or the time is over.",
    413: "The request is too large.",
    422: "A value is out of bounds.",
    429: "Too many requests.",
    503: "The database does not answer: repeat later.",
}
_INTEGERS = ("version", "step")


def document() -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document."""
    kinds = [kind for each in ENDPOINTS for kind in (each.asks, each.answers) if kind is not None]
    schemas, parts = msgspec.json.schema_components(
        [*kinds, messages.Problems], ref_template="#/components/schemas/{name}"
    )
    of = dict(zip([repr(kind) for kind in kinds], schemas, strict=False))
    paths: dict[str, Any] = {}
    for each in ENDPOINTS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Discreet",
            "version": __version__,
            "description": "Learning from people without betraying them.",
        },
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "dk_…"}},
        },
    }


def _operation(each: Endpoint, of: dict[str, Any]) -> dict[str, Any]:
    always = (400,) * (each.asks is not None) + (401, 403, 429) * bool(each.scopes) + (503,)
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problems"}}}
    responses: dict[str, Any] = {
        str(each.status): {"description": "Done.", "content": {"application/json": {"schema": of[repr(each.answers)]}}}
    }
    for status in sorted({*always, *each.problems}):
        responses[str(status)] = {"description": _SAYS[status], "content": problem}
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.says,
        "responses": responses,
        "parameters": [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": {"type": "integer", "minimum": 0} if name in _INTEGERS else {"type": "string"},
            }
            for name in re.findall(r"{(\w+)}", each.path)
        ],
    }
    if each.name == "erase":
        token = {"name": "Discreet-Token", "in": "header", "required": True, "schema": {"type": "string"}}
        found["parameters"].append(token)
    if each.asks is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": of[repr(each.asks)]}}}
    if each.scopes:
        found["security"] = [{"key": []}]
        found["description"] = f"Scope: {' or '.join(each.scopes)}."
    return found
