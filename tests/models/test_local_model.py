"""One real model, small and on this machine, behind both shapes of endpoint: the plumbing, not what it says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_model import ALIAS, serve_local_model
from memdir.records import StopReason
from scripted_models import ask, open_at, rows

anthropic: Any = pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
openai: Any = pytest.importorskip("openai", reason="the extra `openai` is not installed")

HELLO = [{"role": "user", "content": "Say hello."}]
CHOICE = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def local() -> Iterator[str]:
    with serve_local_model() as url:
        yield url


@pytest.mark.parametrize("shape", ["anthropic", "openai"])
def test_a_real_model_is_opened_by_its_string(shape: str, local: str, tmp_path: Path) -> None:
    url = local if shape == "anthropic" else f"{local}/v1"
    model = open_at(url, f"{shape}:{ALIAS}", tmp_path, MEMDIR_MODEL_SECONDS="120")
    heard: list[str] = []
    reply = model(ask("Say hello.", max_tokens=6, on_text=heard.append))
    assert reply.text.strip() and "".join(heard) == reply.text and reply.stop in (StopReason.LENGTH, StopReason.DONE)
    assert reply.usage.input > 0 and 0 < reply.usage.output <= 6
    assert len(rows(tmp_path)) == 1, "it left a row of what it took"


def test_a_real_model_answers_by_a_schema_where_the_endpoint_has_it(local: str, tmp_path: Path) -> None:
    model = open_at(f"{local}/v1", f"openai:{ALIAS}", tmp_path, MEMDIR_MODEL_SECONDS="120")
    reply = model(ask("Is water wet? Answer yes or no.", max_tokens=60, schema=CHOICE))
    assert json.loads(reply.text)["answer"] in ("yes", "no")
