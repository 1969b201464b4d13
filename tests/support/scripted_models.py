"""Models for tests: opened as a person would open them, at a server on this machine, in a home of their own."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from homes import make_environment
from memdir.models.open import OpenModel, open_model
from memdir.models.usage import UsageRow, read_usage_report
from memdir.project.settings import read_settings
from memdir.records import Message, Request, Tool

NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)
READ = Tool("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
SCHEMA = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}, "maxItems": 5}},
    "required": ["names"],
    "additionalProperties": False,
}


def open_at(
    url: str, spec: str, tmp_path: Path, *, tries: int = 1, run: str = "", project: str = "", **variables: str
) -> OpenModel:
    """A model at an address, asked once unless told otherwise."""
    variables = {"MEMDIR_MODEL_SECONDS": "20", **variables}
    environment = make_environment(tmp_path, **variables)
    settings = read_settings(environment, root=None)
    made: Callable[..., Any] = open_model
    model = made(
        spec,
        environment=environment,
        settings=settings,
        url=url,
        key="sk-test-1234567890",
        tries=tries,
        run=run,
        project=project,
        clock=lambda: NOW,
    )
    assert isinstance(model, OpenModel)
    return model


def ask(text: str = "What is remembered?", **more: Any) -> Request:
    """A plain request."""
    more = {"system": "You answer briefly.", "max_tokens": 200, "purpose": "test", **more}
    return Request(messages=more.pop("messages", (Message("user", text),)), **more)


def rows(tmp_path: Path) -> tuple[UsageRow, ...]:
    """What was recorded, oldest first."""
    path = make_environment(tmp_path).state_home / "usage.db"
    return tuple(reversed(read_usage_report(path, now=NOW).last))


def same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
