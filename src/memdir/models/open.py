"""Open a model by its specification: `anthropic:NAME`, `openai:NAME`, `ollama:NAME`, `none`, or the program of a coding
agent (`claude-cli`, `codex-cli`, `gemini-cli`), optionally followed by `:NAME`.

    open_model(spec)  ->  retry ( meter ( provider ) )

A model is a function from Request to Reply: retry and meter are wrappers, a fake is a lambda. An opened model also states
whether it uses tools (`has_tools`), counts against the budget, and records the usage of each request. Opening a model
imports no SDK and sends nothing.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from memdir.errors import ModelError, SettingsError
from memdir.frozen import dataclass, replace
from memdir.limits import MODEL_TRIES
from memdir.models.anthropic import AnthropicModel
from memdir.models.connection import Connection, can_use_tools
from memdir.models.host_cli import PROGRAMS, HostModel
from memdir.models.openai import OpenAIModel
from memdir.models.usage import FILE, TokenCaps, UsageMeter, ask_metered, with_retry
from memdir.project.settings import DEFAULT, Environment, Settings, read_environment, read_settings
from memdir.records import Message, Model, Reply, Request
from memdir.text import as_list, one_line, shorten

NONE = "none"
_EXAMPLES = "anthropic:claude-sonnet-5-5, openai:gpt-5.4-mini, ollama:qwen3:8b, claude-cli, codex-cli, gemini-cli, none"
_SDKS = {"anthropic": "anthropic", "openai": "openai", "ollama": "openai"}
_NO_KEY = "none"  # the SDKs require a key, even for an endpoint that needs none


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model that retries failed requests and records its usage when called."""

    spec: str
    model: Model
    meter: UsageMeter
    tries: int = MODEL_TRIES

    @property
    def has_tools(self) -> bool:
        return can_use_tools(self.model)

    def __call__(self, request: Request) -> Reply:
        return with_retry(lambda again: ask_metered(self.model, again, self.meter), tries=self.tries)(request)


def open_model(
    spec: str,
    *,
    environment: Environment | None = None,
    settings: Settings | None = None,
    project: str = "",
    url: str = "",
    key: str = "",
    run: str = "",
    clock: Callable[[], datetime] | None = None,
    tries: int = MODEL_TRIES,
) -> Model:
    """Return the model that `spec` names. `none` gives a model that always raises ModelError.

    `url` and `key` override settings and environment. `run` is the ID under which `budget.run_tokens` counts, by default a
    new one. `project` is recorded with the usage.
    """
    environment = environment or read_environment()
    settings = settings or read_settings(environment, root=None)
    provider, _, name = spec.strip().partition(":")
    if provider == NONE and not name:
        return absent
    url = url or (settings.text("model_url") if settings.text("model_url") != "default" else "")
    model = _open_provider(spec, provider, name, _Access(environment, settings, url, key))
    fixed = environment.now
    meter = UsageMeter(
        path=environment.state_home / FILE,
        model=spec.strip(),
        caps=TokenCaps(int(settings.number("budget.run_tokens")), int(settings.number("budget.day_tokens"))),
        clock=clock or (lambda: fixed or datetime.now(UTC)),
        run=run or os.urandom(8).hex(),
        project=project,
    )
    return OpenModel(spec, model, meter, tries)


def find_model(settings: Settings, environment: Environment, *, project: str = "", key: str = "model") -> Model | None:
    """Return the model in a setting, or None if it is not set or memdir itself started this process."""
    spec = settings.text("model").strip()
    if spec == NONE or environment.inside:
        return None
    spec = settings.text(key).strip() if settings.sources[key] != DEFAULT else spec
    return open_model(spec, environment=environment, settings=settings, project=project)


def load_sdk(spec: str) -> None:
    """Import the SDK of a model before its first request. Does nothing if the SDK is not installed."""
    with suppress(ImportError, KeyError):
        import_module(_SDKS[spec.strip().partition(":")[0]])


def new_run(model: Model) -> Model:
    """Return a copy of the model that counts as a new run in the budget. Other functions are returned unchanged."""
    return (
        replace(model, meter=replace(model.meter, run=os.urandom(8).hex())) if isinstance(model, OpenModel) else model
    )


def render_parent(model: Model, request: Request, reply: Reply) -> Mapping[str, object] | None:
    """Render a host's request and reply as a cached body for a fork, or None if the model does not support this."""
    provider = model.model if isinstance(model, OpenModel) else model
    render = getattr(provider, "render", None)
    if render is None:
        return None
    turn = Message("assistant", reply.text, calls=reply.calls, raw=reply.raw)
    body, answered = render(request), render(replace(request, messages=(turn,)))
    return {**body, "messages": [*as_list(body["messages"]), *as_list(answered["messages"])[-1:]]}


def absent(request: Request) -> Reply:
    """Raise ModelError. This function is the model named `none`."""
    raise ModelError("no model is configured", hint=f"`memdir config set model NAME`; for example {_EXAMPLES}")


@dataclass(frozen=True, slots=True)
class _Access:
    environment: Environment
    settings: Settings
    url: str
    key: str

    def find(self, *names: str) -> str:
        return next((self.environment.keys[name] for name in names if name in self.environment.keys), "")

    @property
    def silence(self) -> float:
        return self.settings.number("model_seconds")


def _open_provider(spec: str, provider: str, name: str, access: _Access) -> Model:
    vendors = {"anthropic": _open_anthropic, "openai": _open_openai, "ollama": _open_ollama}
    if provider not in (*vendors, *PROGRAMS):
        raise SettingsError(f"unknown model {_show(spec)}", key="model", hint=f"for example {_EXAMPLES}")
    if (not name and provider not in PROGRAMS) or name.startswith("-") or name != "".join(name.split()):
        hint = f"use PROVIDER:NAME, for example {_EXAMPLES}"
        raise SettingsError(f"invalid model name {_show(spec)}", key="model", hint=hint)
    if provider not in PROGRAMS:
        return vendors[provider](name, access)
    command = access.settings.text(PROGRAMS[provider].setting)
    return HostModel(provider, name, command=command, environment=access.environment, silence=access.silence)


def _open_anthropic(name: str, access: _Access) -> Model:
    url = _check_url(access.url or access.find("ANTHROPIC_BASE_URL"))
    key = access.key or access.find("MEMDIR_MODEL_KEY", "ANTHROPIC_API_KEY")
    token = "" if key else access.find("ANTHROPIC_AUTH_TOKEN")
    key = key or ("" if token else _need_key(url, "ANTHROPIC_API_KEY"))

    def make_client(sdk: Any, http_client: Any, timeout: Any) -> Any:
        login = {"api_key": key} if key else {"auth_token": token}
        address = url or "https://api.anthropic.com"
        quiet = {"max_retries": 0, "open_telemetry": False}  # requests are private
        return sdk.Anthropic(**login, base_url=address, timeout=timeout, http_client=http_client, **quiet)

    path, label = "/v1/messages", f"anthropic:{name}"
    return AnthropicModel(name, Connection("anthropic", make_client, path, label=label, silence=access.silence))


def _open_openai(name: str, access: _Access) -> Model:
    url = _check_url(access.url or access.find("OPENAI_BASE_URL"))
    key = access.key or access.find("MEMDIR_MODEL_KEY", "OPENAI_API_KEY") or _need_key(url, "OPENAI_API_KEY")
    connection = _connect_openai(f"openai:{name}", url or "https://api.openai.com/v1", key, access)
    return OpenAIModel(name, connection, is_vendor=not url)


def _open_ollama(name: str, access: _Access) -> Model:
    url = _check_url(access.url or _read_ollama_host(access.find("OLLAMA_HOST")))
    address = url if urlsplit(url).path.rstrip("/") else f"{url.rstrip('/')}/v1"
    key = access.key or access.find("MEMDIR_MODEL_KEY") or _NO_KEY
    return OpenAIModel(name, _connect_openai(f"ollama:{name}", address, key, access), is_free=True)


def _connect_openai(label: str, url: str, key: str, access: _Access) -> Connection:
    def make_client(sdk: Any, http_client: Any, timeout: Any) -> Any:
        return sdk.OpenAI(api_key=key, base_url=url, max_retries=0, timeout=timeout, http_client=http_client)

    return Connection("openai", make_client, "/chat/completions", label=label, silence=access.silence)


def _need_key(url: str, variable: str) -> str:
    """Raise ModelError if the endpoint is the vendor's own, which needs an API key."""
    if url:
        return _NO_KEY
    hint = f"set {variable}, or use a model without a key: ollama:NAME, claude-cli, codex-cli or gemini-cli"
    raise ModelError(f"{variable} is not set", hint=hint)


def _read_ollama_host(host: str) -> str:
    """Convert the value of OLLAMA_HOST to a URL. It may be a host, a port, both or a URL."""
    if not host:
        return "http://127.0.0.1:11434"
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        port = parts.port or (443 if parts.scheme == "https" else 11434)
    except ValueError as error:
        raise SettingsError(f"invalid OLLAMA_HOST {_show(host)}", key="OLLAMA_HOST") from error
    name = "127.0.0.1" if parts.hostname in ("0.0.0.0", "::", None) else parts.hostname
    return f"{parts.scheme}://{f'[{name}]' if ':' in str(name) else name}:{port}{parts.path}"


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        hint = "for example http://127.0.0.1:8080/v1"
        raise SettingsError(f"invalid endpoint URL {_show(url)}", key="model_url", hint=hint)
    return url


def _show(text: str) -> str:
    return repr(shorten(one_line(text), 80))
