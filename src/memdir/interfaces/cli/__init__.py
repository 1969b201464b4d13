"""The command line: translates between a terminal and the packages below, and holds no rule of memory.

`run` is the entry point. Each verb's module is imported when the verb is called, and `recall`, which agents call all the
time, does without click altogether (`quick`).

    app     the click program, options that verbs share, names typed by people      quick   `recall` without click
    output  all printing: lines, tables, JSON rows, diffs, errors                   others  the verbs, by subject
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from memdir.errors import MemdirError, PathError, SettingsError
from memdir.guard import check_root
from memdir.interfaces.cli import output
from memdir.interfaces.cli.output import TableColumn
from memdir.project.settings import Environment, read_environment
from memdir.records import Origin, Scope
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.store.plan import is_team

if TYPE_CHECKING:
    from memdir.records import Model

# Another interface that a verb leads to, such as the chat; returns an exit code.
Interface = Callable[..., int]


def run(
    argv: list[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    interfaces: Mapping[str, Interface] = MappingProxyType({}),
) -> int:
    """Run one call of the command line and return its exit code; errors of the person calling do not raise.

    `interfaces` are those that a verb leads to: interfaces do not import one another, so the caller passes them in.
    """
    call = CliContext(environ, cwd, interfaces)
    try:
        code = _run(argv, call)
        output.flush(sys.stdout)
        return code
    except MemdirError as error:
        output.complain(output.render_error(error))
    except KeyboardInterrupt:
        return output.INTERRUPTED
    except output.PipeClosedError:
        _silence()
        return output.DONE
    except OSError as error:
        output.complain(output.render_os_error(error))
        _silence()
    finally:
        if call.project is not None:
            call.project.close()
    return output.REFUSED


class CliContext:
    """One call, passed to every verb. `variables` and `cwd` are the real ones unless a test gives others."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        interfaces: Mapping[str, Interface] = MappingProxyType({}),
    ) -> None:
        self.variables = environ
        self._interfaces = interfaces
        self._given_cwd = cwd
        self.directory: Path | None = None
        self.out = output.Output("never")
        self.project: Project | None = None  # from the first `open` on

    def prepare(self, directory: str | None, color: str) -> None:
        """Apply the options of the whole program."""
        self.directory = None if directory is None else (self.cwd / directory).absolute()
        if directory is not None:
            check_root(str(self.directory) if directory else "")
        self.out = output.Output(color, no_color=self.environment.no_color)

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

    def open(self) -> Project:
        """The project with its stores; opening creates nothing."""
        if self.project is None:
            self.project = open_project(self.cwd, environ=self.variables, directory=self.directory)
        return self.project

    def open_to_write(self) -> Project:
        self.open().check_on()
        return self.open()

    def origin(self, why: str = "") -> Origin:
        return Origin(why=why, session=self.open().environment.session)

    def choose_model(self, spec: str | None) -> "Model | None":
        """The model that a call names, or that of the settings; None for built-in patterns alone."""
        # Imported here: few verbs ask a model, and all verbs import this module.
        from memdir.models.open import find_model, open_model

        project = self.open()
        settings, environment, root = project.settings, project.environment, str(project.places.root.path)
        if spec is None:
            return find_model(settings, environment, project=root)
        if spec.strip() == "none":
            return None
        return open_model(spec, environment=environment, settings=settings, project=root)

    def enter(self, interface: str, **options: Any) -> int:
        """Go on at another interface; returns its exit code."""
        if interface not in self._interfaces:
            raise SettingsError(f"there is no way from here to {interface}", hint=f"start it as `memdir {interface}`")
        return self._interfaces[interface](**options)

    def show_rows(self, columns: Sequence[TableColumn], rows: Sequence[Any], *, as_json: bool, empty: str = "") -> None:
        """Rows as JSON or as a table; a terminal shows `empty` when there are none."""
        if as_json:
            self.out.json(rows)
        elif rows:
            self.out.table(columns, rows, self.open().now() if any(at.is_time for at in columns) else None)
        elif self.out.is_table and empty:
            self.out.line(empty)


def choose_store(project: Project, scope: str | None) -> FileStore:
    """The store of a scope, the project's own without one; team memories are in a folder of that."""
    if scope == Scope.PROJECT.value and project.project is None:
        hint = "make the folder .claude/memory in the repository, or use --scope team"
        raise SettingsError("this project keeps no memory in its own history", key="scope", hint=hint)
    if scope == Scope.USER.value and project.user is None:
        raise SettingsError("there is no user memory here", key="user_memory", hint="`memdir where` shows why")
    return {Scope.PROJECT.value: project.project, Scope.USER.value: project.user}.get(scope or "") or project.private


def choose_stores(project: Project, scope: str | None) -> tuple[FileStore, ...]:
    """All stores of the project, or that of the scope."""
    return tuple(project.stores) if scope is None else (choose_store(project, scope),)


def name_scope(store: FileStore, name: str = "") -> str:
    """The scope of a store, or of one of its memories."""
    return (Scope.TEAM if store.scope is Scope.PRIVATE and is_team(name) else store.scope).value


def scope_flag(store: FileStore) -> str:
    """The option by which a later call means the same store."""
    return f" --scope {store.scope.value}" if store.scope in (Scope.USER, Scope.PROJECT) else ""


def _run(argv: list[str], call: CliContext) -> int:
    # Imported here: `recall` does without click, and the other verbs do without search.
    if "recall" in argv:
        from memdir.interfaces.cli.quick import parse_recall, show_recall

        if (quick := parse_recall(argv)) is not None:
            call.prepare(quick[0], "auto")
            show_recall(call, quick[1])
            return output.DONE
    from memdir.interfaces.cli.app import run_app

    return run_app(argv, call)


def _silence() -> None:
    """Point standard output at nothing for the interpreter's last flush: its reader has gone, or its disk is full."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # no descriptor behind it, so nothing is left to flush
