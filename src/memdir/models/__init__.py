"""Models, opened by a string: `anthropic:NAME`, `openai:NAME`, `ollama:NAME`, `claude-cli[:NAME]`, `none`.

    open_model(spec)  ->  retry ( meter ( provider ) )

A model is a function from Request to Reply and stays one: retry and meter are wrappers, a fake is a lambda. What comes
back from `open_model` also says what it can do (`has_tools`), counts against the person's budget, and leaves a row of
what each request took. Opening one loads no SDK and asks nobody.

It knows nothing of memory, and decides neither what is asked nor what an answer is good for.
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
from memdir.models.claude_cli import ClaudeModel
from memdir.models.connection import Connection, as_list, can_use_tools
from memdir.models.openai import OpenAIModel
from memdir.models.usage import FILE, TokenCaps, UsageMeter, ask_metered, with_retry
from memdir.project.settings import Environment, Settings, read_environment, read_settings
from memdir.records import Message, Model, Reply, Request
from memdir.text import one_line, shorten

__all__ = [
    "OpenModel",
    "can_use_tools",
    "find_model",
    "forbid",
    "load_sdk",
    "new_run",
    "open_model",
    "render_parent",
    "with_retry",
]

NONE = "none"
OLLAMA = "http://127.0.0.1:11434"
_EXAMPLES = "anthropic:claude-sonnet-5-5, openai:gpt-5.4-mini, ollama:qwen3:8b, claude-cli, none"
_SDKS = {"anthropic": "anthropic", "openai": "openai", "ollama": "openai"}
_NO_KEY = "none"  # what an endpoint gets that asks for no key: the SDKs insist on one


@dataclass(frozen=True, slots=True)
class OpenModel:
    """An opened model: called with a request, it retries, counts, and answers."""

    spec: str
    model: Model
    meter: UsageMeter
    tries: int = MODEL_TRIES

    @property
    def has_tools(self) -> bool:
        return can_use_tools(self.model)

    def __call__(self, request: Request) -> Reply:
        def ask(again: Request) -> Reply:
            return ask_metered(self.model, again, self.meter)

        return with_retry(ask, tries=self.tries)(request)


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
    """The model that `spec` names; `none` is one that raises when it is asked.

    `url` and `key` win over settings and environment. `run` is what `budget.run_tokens` counts by, a new one unless
    given; `project` is what the usage is filed under.
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
        run=run or _make_run(),
        project=project,
    )
    return OpenModel(spec, model, meter, tries)


def find_model(settings: Settings, environment: Environment, *, project: str = "", run: str = "") -> Model | None:
    """The model of the settings; None if there is none, or inside a program that memdir started."""
    spec = settings.text("model")
    if spec.strip() == NONE or environment.inside:
        return None
    return open_model(spec, environment=environment, settings=settings, project=project, run=run)


def load_sdk(spec: str) -> None:
    """Load ahead what the first request to this model would load; one that is not there is missed when it is asked."""
    package = _SDKS.get(spec.strip().partition(":")[0])
    if package is not None:
        with suppress(ImportError):
            import_module(package)


def new_run(model: Model, run: str = "") -> Model:
    """The same model with a run of its own in the budget; any other function as it is."""
    if not isinstance(model, OpenModel):
        return model
    return replace(model, meter=replace(model.meter, run=run or _make_run()))


def render_parent(model: Model, request: Request, reply: Reply) -> Mapping[str, object] | None:
    """What a host asked and was answered, as the body that a fork goes on from; None for a model that has no such.

    It begins with the very bytes of the host's request, so the provider's cache knows it.
    """
    provider = model.model if isinstance(model, OpenModel) else model
    render = getattr(provider, "render", None)
    said = Message("assistant", reply.text, calls=reply.calls, raw=reply.raw)
    return None if render is None else _add_answer(render(request), render(replace(request, messages=(said,))))


def _add_answer(body: dict[str, object], answered: Mapping[str, object]) -> Mapping[str, object]:
    """The first with the last message of the second."""
    return {**body, "messages": [*as_list(body["messages"]), *as_list(answered["messages"])[-1:]]}


def absent(request: Request) -> Reply:
    """The model `none`."""
    raise ModelError("no model is chosen", hint=f"`memdir config set model NAME`; for example {_EXAMPLES}")


def forbid(request: Request) -> Reply:
    """For tests: a model that nobody may ask."""
    raise AssertionError(f"a model was asked, for {request.purpose or 'no purpose'}")


@dataclass(frozen=True, slots=True)
class _Access:
    """Where a provider is and what opens it."""

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
    if provider not in ("anthropic", "openai", "ollama", "claude-cli"):
        raise SettingsError(f"there is no model {_show(spec)}", key="model", hint=f"for example {_EXAMPLES}")
    if (not name and provider != "claude-cli") or name.startswith("-") or name != "".join(name.split()):
        hint = f"provider, colon, the provider's name for it; for example {_EXAMPLES}"
        raise SettingsError(f"{_show(spec)} does not name a model", key="model", hint=hint)
    if provider == "claude-cli":
        program = access.settings.text("claude")
        return ClaudeModel(name, program=program, environment=access.environment, silence=access.silence)
    if provider == "anthropic":
        return _open_anthropic(name, access)
    return _open_openai(name, access) if provider == "openai" else _open_ollama(name, access)


def _open_anthropic(name: str, access: _Access) -> Model:
    url = _check_url(access.url or access.find("ANTHROPIC_BASE_URL"))
    key = access.key or access.find("MEMDIR_MODEL_KEY", "ANTHROPIC_API_KEY")
    token = "" if key else access.find("ANTHROPIC_AUTH_TOKEN")
    key = key or ("" if token else _need_key(url, "ANTHROPIC_API_KEY"))

    def make_client(sdk: Any, http_client: Any, timeout: Any) -> Any:
        login = {"api_key": key} if key else {"auth_token": token}
        return sdk.Anthropic(
            **login,
            base_url=url or "https://api.anthropic.com",
            max_retries=0,
            timeout=timeout,
            http_client=http_client,
            open_telemetry=False,  # what is asked here is nobody else's business
        )

    line = Connection("anthropic", make_client, "/v1/messages", who=f"anthropic:{name}", silence=access.silence)
    return AnthropicModel(name, line)


def _open_openai(name: str, access: _Access) -> Model:
    url = _check_url(access.url or access.find("OPENAI_BASE_URL"))
    key = access.key or access.find("MEMDIR_MODEL_KEY", "OPENAI_API_KEY") or _need_key(url, "OPENAI_API_KEY")
    line = _make_openai_line(f"openai:{name}", url or "https://api.openai.com/v1", key, access)
    return OpenAIModel(name, line, is_vendor=not url)


def _open_ollama(name: str, access: _Access) -> Model:
    url = _check_url(access.url or _read_ollama_host(access.find("OLLAMA_HOST")))
    address = url if urlsplit(url).path.rstrip("/") else f"{url.rstrip('/')}/v1"
    line = _make_openai_line(
        f"ollama:{name}", address, access.key or access.find("MEMDIR_MODEL_KEY") or _NO_KEY, access
    )
    return OpenAIModel(name, line, is_free=True)


def _make_openai_line(who: str, url: str, key: str, access: _Access) -> Connection:
    def make_client(sdk: Any, http_client: Any, timeout: Any) -> Any:
        return sdk.OpenAI(api_key=key, base_url=url, max_retries=0, timeout=timeout, http_client=http_client)

    return Connection("openai", make_client, "/chat/completions", who=who, silence=access.silence)


def _need_key(url: str, variable: str) -> str:
    """Only the vendor's own endpoint is known to need a key."""
    if url:
        return _NO_KEY
    hint = f"set {variable}; or use a model without one: ollama:NAME, or claude-cli, which has its own login"
    raise ModelError(f"{variable} is not set", hint=hint)


def _read_ollama_host(host: str) -> str:
    """What ollama itself understands: a host, a port, both, or a whole address; a server's "everywhere" is here."""
    if not host:
        return OLLAMA
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        port = parts.port or (443 if parts.scheme == "https" else 11434)
    except ValueError as error:
        raise SettingsError(f"OLLAMA_HOST = {_show(host)} is not an address", key="OLLAMA_HOST") from error
    name = "127.0.0.1" if parts.hostname in ("0.0.0.0", "::", None) else parts.hostname
    return f"{parts.scheme}://{f'[{name}]' if ':' in str(name) else name}:{port}{parts.path}"


def _check_url(url: str) -> str:
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "for example http://127.0.0.1:8080/v1"
        raise SettingsError(f"{_show(url)} is not the address of an endpoint", key="model_url", hint=hint)
    return url


def _show(text: str) -> str:
    return repr(shorten(one_line(text), 80))


def _make_run() -> str:
    return os.urandom(8).hex()
