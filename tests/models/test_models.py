"""Opening a model by its string: what is needed, what is refused, and in which words."""

import subprocess
import sys
from pathlib import Path

import pytest

from homes import make_environment
from loads import ROOT
from memdir.errors import ModelError, SettingsError
from memdir.models.connection import Connection, narrow_schema
from memdir.models.open import OpenModel, find_model, open_model
from memdir.project.settings import read_settings
from memdir.records import Model
from scripted_models import SCHEMA, ask
from servers import AnthropicServer, OpenAIServer


def opened(tmp_path: Path, spec: str, **variables: str) -> Model:
    environment = make_environment(tmp_path, **variables)
    return open_model(spec, environment=environment, settings=read_settings(environment, root=None), tries=1)


def test_the_model_of_the_settings_is_found_and_none_is_none(tmp_path: Path) -> None:
    for variables, there in (({}, False), ({"MEMDIR_MODEL": "none"}, False), ({"MEMDIR_MODEL": "ollama:x"}, True)):
        environment = make_environment(tmp_path, **variables)
        found = find_model(read_settings(environment, root=None), environment)
        assert (found is not None) is there


@pytest.mark.parametrize("spec", ["", "gpt-5", "mistral:x", "anthropic", "anthropic:", "openai:a b", "claude-cli:--x"])
def test_a_string_that_names_no_model_is_refused_with_examples(tmp_path: Path, spec: str) -> None:
    with pytest.raises(SettingsError) as caught:
        opened(tmp_path, spec)
    assert "ollama:" in caught.value.hint and caught.value.key == "model"


@pytest.mark.parametrize(("spec", "name"), [("anthropic:x", "ANTHROPIC_API_KEY"), ("openai:x", "OPENAI_API_KEY")])
def test_a_missing_key_is_named(tmp_path: Path, spec: str, name: str) -> None:
    with pytest.raises(ModelError, match=f"{name} is not set"):
        opened(tmp_path, spec)
    assert isinstance(opened(tmp_path, spec, **{name: "k"}), OpenModel)


def test_an_endpoint_of_the_persons_own_needs_no_key(tmp_path: Path) -> None:
    with OpenAIServer(["Yes."]) as server:
        assert opened(tmp_path, "openai:x", MEMDIR_MODEL_URL=server.url)(ask()).text == "Yes."
    with AnthropicServer(["Yes."]) as other:
        assert opened(tmp_path, "anthropic:x", ANTHROPIC_BASE_URL=other.url)(ask()).text == "Yes."


def test_keys_come_from_the_vendors_variables_and_memdirs_own_wins(tmp_path: Path) -> None:
    with OpenAIServer(["a", "b"], key="mine") as server:
        place = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "mine"}
        assert opened(tmp_path, "openai:x", **place)(ask()).text == "a"
        other = {**place, "OPENAI_API_KEY": "theirs", "MEMDIR_MODEL_KEY": "mine"}
        assert opened(tmp_path, "openai:x", **other)(ask()).text == "b"
    with AnthropicServer(["c"], key="token") as third:
        place = {"ANTHROPIC_BASE_URL": third.url, "ANTHROPIC_AUTH_TOKEN": "token"}
        assert opened(tmp_path, "anthropic:x", **place)(ask()).text == "c"


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:80", "http://"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="invalid endpoint URL"):
        opened(tmp_path, "openai:x", MEMDIR_MODEL_URL=url)


@pytest.mark.parametrize("host", ["127.0.0.1:9", "0.0.0.0:9", ":9", "http://localhost:9", "[::1]:9", "h:no", "[::1"])
def test_ollamas_own_variable_is_understood(tmp_path: Path, host: str) -> None:
    try:
        with pytest.raises(ModelError, match="cannot be reached"):
            opened(tmp_path, "ollama:x", OLLAMA_HOST=host)(ask())
    except SettingsError as error:
        assert host in ("h:no", "[::1") and "OLLAMA_HOST" in str(error)


def test_a_missing_package_is_named_with_what_to_install() -> None:
    with pytest.raises(ModelError) as caught:
        Connection("no_such_package", print, "", label="x:y", silence=1.0)
    assert caught.value.hint.endswith("-m pip install 'memdir[no_such_package]'")


def test_opening_loads_no_sdk(tmp_path: Path) -> None:
    code = (
        "import sys, memdir; memdir.open_model('anthropic:x', key='k'); memdir.open_model('openai:x', key='k');"
        "print([name for name in ('anthropic', 'openai', 'httpx2', 'pydantic') if name in sys.modules])"
    )
    env = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "[]\n" and list(tmp_path.iterdir()) == []


def test_a_schema_is_narrowed_and_its_names_are_left_alone() -> None:
    named = {"type": "object", "properties": {"default": {"type": "integer", "minimum": 1}}, "required": ["default"]}
    assert narrow_schema(named) == {
        "type": "object",
        "properties": {"default": {"type": "integer"}},
        "required": ["default"],
        "additionalProperties": False,
    }
    assert SCHEMA["properties"]["names"]["maxItems"] == 5  # type: ignore[index]
