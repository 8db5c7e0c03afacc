"""What goes wrong, as ``application/problem+json``: a status, a title and a bound, never a value or a person."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from discreet.errors import (
    BudgetExceeded,
    Closed,
    DiscreetError,
    InvalidInput,
    InvalidPersonalData,
    InvalidToken,
    RolledBack,
    Unavailable,
)

__all__ = ["Problem", "problem_of", "response_of"]

#: What our errors mean to a client; the first that fits.
_STATUS: tuple[tuple[type[Exception], int, str], ...] = (
    (Closed, 410, "closed"),
    (InvalidToken, 403, "invalid token"),
    (RolledBack, 409, "rolled back"),
    (Unavailable, 503, "repeat later"),
    (BudgetExceeded, 402, "no budget left"),
    (InvalidPersonalData, 422, "report refused"),
    (InvalidInput, 422, "invalid input"),
)
_TITLES = {
    400: "malformed request",
    401: "no valid key",
    403: "not allowed",
    404: "not found",
    405: "method not allowed",
    408: "too slow",
    411: "length required",
    413: "too large",
    415: "unsupported media type",
    429: "too many requests",
    500: "internal error",
}


class Problem(Exception):
    """Something that a client is told.

    Attributes:
        status: Of the answer.
        detail: One sentence.
        headers: That go with it.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, title: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}
        self.title = title or _TITLES.get(status, "error")


def problem_of(error: Exception) -> Problem:
    """Returns what a client is told of an error: our own words, or nothing but that there was one."""
    if isinstance(error, Problem):
        return error
    for kind, status, title in _STATUS:
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if status == 503 else {}
            return Problem(status, str(error), headers, title)
    if isinstance(error, DiscreetError):
        return Problem(409, str(error), title="conflict")
    return Problem(500, "something went wrong here; to do the same again is safe")


def response_of(problem: Problem) -> Response:
    """Returns the answer."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    return Response(msgspec.json.encode(body), problem.status, problem.headers, media_type="application/problem+json")
