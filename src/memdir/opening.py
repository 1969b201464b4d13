"""From a working directory to open stores: settings, places and identity put together, for every door the same way.

It opens and checks; it writes nothing until the first memory is saved.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.errors import SettingsError
from memdir.frozen import dataclass
from memdir.identity import check_identity, find_identity, read_identity, write_identity
from memdir.paths import Place, Places, find_state_dir, is_shared_dir, read_places
from memdir.records import Scope
from memdir.settings import Environment, Settings, read_environment
from memdir.slugs import slug
from memdir.store.contract import Clock, utc_now
from memdir.store.files import FileStore

if TYPE_CHECKING:
    from memdir.authors import Author
    from memdir.secrets import Finding


@dataclass(frozen=True, slots=True)
class Opened:
    """All that follows from one working directory."""

    environment: Environment
    settings: Settings
    places: Places
    private: FileStore
    user: FileStore | None
    clock: Clock
    project: FileStore | None = None

    @property
    def stores(self) -> tuple[FileStore, ...]:
        """Every store that is read here, the project's own first: of two memories with one name it wins."""
        return tuple(store for store in (self.private, self.project, self.user) if store is not None)

    def now(self) -> datetime:
        return self.clock()

    def check_on(self) -> None:
        """Raise if memory is switched off here: nothing may be written then."""
        if not self.places.switch.on:
            rule = self.places.switch.rule
            raise SettingsError(
                f"memory is off here ({rule})", key=rule, hint="`memdir where` shows which rule says so"
            )

    def close(self) -> None:
        for store in self.stores:
            store.close()


def open_places(
    cwd: Path | None = None, *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Opened:
    """Everything for a working directory; `directory` puts another memory directory in the project's place."""
    environment = read_environment(environ)
    settings, places = read_places(environment, (cwd or Path.cwd()).absolute())
    fixed = environment.now
    clock = utc_now if fixed is None else lambda: fixed
    if directory is not None:
        place, shared = Place(Scope.PRIVATE, directory.absolute(), "--dir"), is_shared_dir(directory, environment)
        private = _open_place(place, None, environment, settings, clock, shared=shared)
        return Opened(environment, settings, places, private, None, clock)
    private = _open_place(places.private, places.root.path, environment, settings, clock)
    user = None if places.user is None else _open_place(places.user, None, environment, settings, clock)
    own = None if places.project is None else _open_place(places.project, None, environment, settings, clock)
    return Opened(environment, settings, places, private, user, clock, own)


def open_store(path: Path | str | None = None, *, cwd: Path | None = None, scope: Scope = Scope.PRIVATE) -> FileStore:
    """This project's memory, found from the git root; or the directory at `path`, without asking the environment."""
    if path is not None:
        return FileStore(Path(path).absolute(), scope=scope)
    opened = open_places(cwd)
    opened.check_on()
    if scope is Scope.USER:
        opened.private.close()
        if opened.user is None:
            raise SettingsError("user memory is off", key="user_memory", hint="`memdir config set user_memory true`")
        return opened.user
    return opened.private


def _open_place(
    place: Place,
    root: Path | None,
    environment: Environment,
    settings: Settings,
    clock: Clock,
    *,
    shared: bool = False,
) -> FileStore:
    state = find_state_dir(place.path, environment)
    keyed = root if place.is_keyed else None
    if keyed is not None:
        check_identity(state, keyed)
    return FileStore(
        place.path,
        state=state,
        cache=environment.cache_home / "dirs" / slug(str(place.path))[-100:].strip("-"),
        scope=place.scope,
        skip_index=settings.flag("skip_index"),
        lock_seconds=settings.number("lock_seconds"),
        clock=clock,
        on_open=partial(_record_identity, state, keyed),
        find_secrets=partial(_find_secrets, environment),
        shared=shared,
        team=settings.flag("team"),
        find_author=partial(_find_author, environment, root) if place.scope is Scope.PRIVATE else None,
    )


def _record_identity(state: Path, root: Path | None) -> None:
    """The project's record, made once and renewed when it was moved to a path with the same slug."""
    if root is not None:
        known = read_identity(state)
        if known is None or known.root != str(root):
            write_identity(state, find_identity(root))


def _find_secrets(environment: Environment, text: str) -> "Sequence[Finding]":
    # Imported here: only writes to what a team shares are searched.
    from memdir.secrets.own import find_for

    return find_for(environment, text)


def _find_author(environment: Environment, root: Path | None) -> "Author":
    # Imported here: only writes to what a team shares are signed.
    from memdir.authors import find_own_author

    return find_own_author(environment, root)
