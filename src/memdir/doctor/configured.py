"""What is wrong with settings: keys nobody knows, lines that do not count, values that can have no effect."""

from collections.abc import Iterator, Mapping

from memdir.doctor.findings import Finding
from memdir.options import BY_KEY, Value
from memdir.paths import Places
from memdir.settings import PROJECT_FILE, Settings

# A setting, another one, and the value of that other with which the first means nothing.
_NEEDS: tuple[tuple[str, str, Value], ...] = (
    ("dream_hours", "dream", False),
    ("dream_sessions", "dream", False),
    ("dream_scan_minutes", "dream", False),
    ("extract_headless", "extract", False),
    ("extract_every", "extract", False),
    ("model_url", "model", "none"),
    ("model_seconds", "model", "none"),
    ("budget.run_tokens", "model", "none"),
    ("budget.day_tokens", "model", "none"),
    ("index_order", "skip_index", True),
)


def check_settings(settings: Settings, places: Places) -> Iterator[Finding]:
    """Settings and places that are not as somebody meant them to be."""
    for key in settings.unknown:
        yield Finding("setting", "config file", f"there is no setting {key}", f"`memdir config unset {key}`")
    for key, reason in settings.ignored.items():
        yield Finding("setting", PROJECT_FILE, f"{key} is ignored: {reason}", "take it out of the file")
    for note in places.notes:
        if note != places.root.note:
            yield Finding("setting", "places", note, "`memdir where` shows each rule")
    yield from _check_effect(settings, _find_own(settings))


def _find_own(settings: Settings) -> Mapping[str, str]:
    """What a person has set, and where. A variable is somebody's for this one call, a project's file not ours."""
    own = {key: source for key, source in settings.sources.items() if source.startswith("config file ")}
    return {key: source for key, source in own.items() if settings[key] != BY_KEY[key].default}


def _check_effect(settings: Settings, own: Mapping[str, str]) -> Iterator[Finding]:
    for key, other, value in _NEEDS:
        if key in own and settings[other] == value:
            shown = str(value).lower()
            message = f"{key} = {settings[key]} has no effect while {other} is {shown}"
            yield Finding("dead_setting", "config file", message, f"`memdir config unset {key}`, or set {other}")
