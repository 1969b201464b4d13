"""One call of the command line: what it was given, and what follows from it, opened when first needed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from memdir.doors.cli.output import Output
from memdir.errors import PathError, SettingsError
from memdir.opening import Opened, open_places
from memdir.paths import check_root
from memdir.records import Origin, Scope
from memdir.settings import Environment, read_environment
from memdir.store.files import FileStore
from memdir.store.shared import is_team

if TYPE_CHECKING:
    from memdir.records import Model

Door = Callable[..., int]


class Call:
    """Passed to every verb. `variables` and `cwd` are the real ones unless a test gives others."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        doors: Mapping[str, Door] = MappingProxyType({}),
    ) -> None:
        self.variables = environ
        self._doors = doors
        self._given_cwd = cwd
        self.directory: Path | None = None
        self.out = Output("never")
        self._opened: Opened | None = None

    def prepare(self, directory: str | None, color: str) -> None:
        """Take the options of the whole program."""
        self.directory = None if directory is None else (self.cwd / directory).absolute()
        if directory is not None:
            check_root(str(self.directory) if directory else "")
        self.out = Output(color, no_color=self.environment.no_color)

    @property
    def cwd(self) -> Path:
        if self._given_cwd is not None:
            return self._given_cwd
        try:
            return Path.cwd()
        except FileNotFoundError:
            raise PathError(".", "the working directory is gone", hint="change into one that exists") from None

    @property
    def environment(self) -> Environment:
        return read_environment(self.variables)

    def open(self) -> Opened:
        """The stores of this place; nothing is made by opening them."""
        if self._opened is None:
            self._opened = open_places(self.cwd, environ=self.variables, directory=self.directory)
        return self._opened

    def open_to_write(self) -> Opened:
        opened = self.open()
        opened.check_on()
        return opened

    def origin(self, why: str = "") -> Origin:
        return Origin(why=why, session=self.open().environment.session)

    def choose_model(self, spec: str | None) -> "Model | None":
        """The model that a call names, or that of the settings; None for rules alone."""
        # Imported here: few verbs ask a model, and all verbs import this room.
        from memdir.models import find_model, open_model

        opened = self.open()
        project = str(opened.places.root.path)
        if spec is None:
            return find_model(opened.settings, opened.environment, project=project)
        if spec.strip() == "none":
            return None
        return open_model(spec, environment=opened.environment, settings=opened.settings, project=project)

    def enter(self, door: str, **wish: Any) -> int:
        """Go on at another door; answers its exit code."""
        if door not in self._doors:
            raise SettingsError(f"there is no way from here to {door}", hint=f"start it as `memdir {door}`")
        return self._doors[door](**wish)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def choose_store(opened: Opened, scope: str | None) -> FileStore:
    """The store of a scope, the project's own without one; what a team shares lies in a folder of that."""
    if scope == Scope.PROJECT.value:
        if opened.project is None:
            hint = "make the folder .claude/memory in the repository, or use --scope team"
            raise SettingsError("this project keeps no memory in its own history", key="scope", hint=hint)
        return opened.project
    if scope != Scope.USER.value:
        return opened.private
    if opened.user is None:
        raise SettingsError("there is no user memory here", key="user_memory", hint="`memdir where` shows why")
    return opened.user


def name_scope(store: FileStore, name: str = "") -> str:
    """Whose memory a store's is, or one of its memories."""
    is_shared = store.scope is Scope.PRIVATE and is_team(name)
    return Scope.TEAM.value if is_shared else store.scope.value


def scope_flag(store: FileStore) -> str:
    """The option by which a later call means the same store."""
    return f" --scope {store.scope.value}" if store.scope in (Scope.USER, Scope.PROJECT) else ""
