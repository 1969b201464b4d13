"""Frozen records with slots: what `dataclasses` makes, made in a tenth of its time.

Every process of memdir, one at each prompt, makes some fifty kinds of record before it does anything. The standard
library takes half a millisecond for each, and its import as long again; together that was a third of a cold recall.
Here one function is compiled for each kind, its `__init__`, and that when a few records of the kind have been made, as
most kinds never have so many in most processes; the others are shared.

Type checkers take it for `dataclasses.dataclass`, and so do `dataclasses.replace`, `fields` and `asdict`. It knows
neither inheritance between records nor fields that are not in `__init__`, and every record is frozen and has slots.
"""

import re
import threading
from collections.abc import Callable, Mapping
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import Field


# --- frozen ---

Record = TypeVar("Record")
_MISSING: Any = object()
_FEW = 4  # records are filled by hand in less time than their `__init__` would take to compile


class FrozenError(AttributeError):
    """Somebody wanted to change a record; `replace` makes another."""


class _Spec:
    """What `field` says of one field."""

    __slots__ = ("compare", "default", "factory", "kw_only", "repr")

    def __init__(self, default: Any, factory: Any, *, kw_only: bool, repr: bool, compare: bool) -> None:
        self.default, self.factory = default, factory
        self.kw_only, self.repr, self.compare = kw_only, repr, compare


def field(
    *,
    default: Any = _MISSING,
    default_factory: Any = _MISSING,
    kw_only: bool = False,
    repr: bool = True,
    compare: bool = True,
) -> Any:
    """As `dataclasses.field`."""
    return _Spec(default, default_factory, kw_only=kw_only, repr=repr, compare=compare)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def dataclass(*, frozen: bool = True, slots: bool = True, eq: bool = True) -> Callable[[type[Record]], type[Record]]:
    """As `dataclasses.dataclass(frozen=True, slots=True)`; said so where it is used, for the reader's sake."""
    if not (frozen and slots):
        raise TypeError("a record is frozen and has slots")
    return lambda cls: _make_record(cls, eq=eq)


def replace(record: Record, /, **changes: Any) -> Record:
    """The same record but for some fields."""
    kept = {name: getattr(record, name) for name in _names_of(record) if name not in changes}
    return type(record)(**kept, **changes)


def asdict(record: object) -> dict[str, Any]:
    """A record's fields with their values; records inside stay records."""
    return {name: getattr(record, name) for name in _names_of(record)}


def list_fields(record: object) -> tuple[str, ...]:
    """The names of a record's fields, or of a kind of record."""
    return _names_of(record)


def _make_record(cls: type[Record], *, eq: bool) -> type[Record]:
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    specs = {name: _make_spec(body.pop(name, _MISSING)) for name in cls.__annotations__}
    body["__slots__"] = body["__match_args__"] = tuple(specs)
    body["__init__"] = _make_first_init(cls.__qualname__, specs)
    body["__dataclass_fields__"] = _Fields(specs, cls.__annotations__)
    body["_shown"] = tuple(name for name, spec in specs.items() if spec.repr)
    body["_key"] = staticmethod(_make_key([name for name, spec in specs.items() if spec.compare]))
    for name, method in _METHODS.items():
        if body.get(name) is None and (eq or name not in ("__eq__", "__hash__")):
            body[name] = method
    # A class cannot be given slots: it is made anew with them.
    metaclass: Any = type(cls)
    made: type[Record] = metaclass(cls.__name__, cls.__bases__, body)
    return made


def _make_spec(value: Any) -> _Spec:
    return value if isinstance(value, _Spec) else _Spec(value, _MISSING, kw_only=False, repr=True, compare=True)


def _make_key(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else (lambda record: ())


def _make_first_init(kind: str, specs: Mapping[str, _Spec]) -> Any:
    """Fills the first records itself, then compiles the real one, which also refuses arguments that do not fit."""
    by_place = [name for name, spec in specs.items() if not spec.kw_only]
    filled = 0

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        nonlocal filled
        filled += 1
        if (
            filled <= _FEW
            and len(given) <= len(by_place)
            and _fill(self, specs, dict(zip(by_place, given, strict=False)), named)
        ):
            return
        real: Any = _compile_init(kind, specs)
        # A class that somebody has made from the record may have one of its own; another thread may have been first.
        for cls in type(self).__mro__:
            if vars(cls).get("__init__") is __init__:
                cast("Any", cls).__init__ = real
        real(self, *given, **named)

    return __init__


def _fill(record: Any, specs: Mapping[str, _Spec], given: dict[str, Any], named: dict[str, Any]) -> bool:
    """Give every field its value; False if an argument is missing, unknown or given twice."""
    values = given | named
    if len(values) < len(given) + len(named) or not values.keys() <= specs.keys():
        return False
    for name, spec in specs.items():
        if name not in values:
            if spec.default is _MISSING and spec.factory is _MISSING:
                return False
            values[name] = spec.default if spec.factory is _MISSING else spec.factory()
        object.__setattr__(record, name, values[name])
    return True


def _compile_init(kind: str, specs: Mapping[str, _Spec]) -> Any:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    given, named = ["self"], list[str]()
    lines: list[str] = []
    for name, spec in specs.items():
        argument, value = name, name
        if spec.factory is not _MISSING:
            scope[f"_make_{name}"] = spec.factory
            argument, value = f"{name}=_missing", f"_make_{name}() if {name} is _missing else {name}"
        elif spec.default is not _MISSING:
            scope[f"_default_{name}"] = spec.default
            argument = f"{name}=_default_{name}"
        (named if spec.kw_only else given).append(argument)
        lines.append(f"\n    _set(self, {name!r}, {value})")
    arguments = ", ".join([*given, *(["*", *named] if named else [])])
    # Compiled first: a Ctrl-C during exec of a text is what Python remembers at its end, whoever has caught it since.
    exec(compile(f"def __init__({arguments}) -> None:{''.join(lines) or ' pass'}", "<record>", "exec"), scope)
    scope["__init__"].__qualname__ = f"{kind}.__init__"
    return scope["__init__"]


class _Fields:
    """The table that `dataclasses` and its friends look for, made when one of them asks."""

    def __init__(self, specs: Mapping[str, _Spec], kinds: Mapping[str, Any]) -> None:
        self._specs, self._kinds = specs, kinds

    def __get__(self, *_: object) -> "Mapping[str, Field[Any]]":
        # Imported here: nothing of memdir's own asks, and this module is here because importing that one is slow.
        import dataclasses

        made: list[tuple[str, Any, Field[Any]]] = []
        for name, at in self._specs.items():
            said = {"default": at.default, "default_factory": at.factory}
            options = {key: value for key, value in said.items() if value is not _MISSING}
            spec: Any = dataclasses.field(kw_only=at.kw_only, repr=at.repr, compare=at.compare, **options)
            made.append((name, self._kinds[name], spec))
        fields: Mapping[str, Field[Any]] = vars(dataclasses.make_dataclass("Fields", made))["__dataclass_fields__"]
        return fields


def _names_of(record: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = record.__match_args__
    return names


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._shown)})"


def _eq(self: Any, other: Any) -> bool:
    return bool(self._key(self) == other._key(other)) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._key(self))


def _refuse(self: object, name: str, *_: object) -> None:
    raise FrozenError(f"{type(self).__qualname__}.{name} cannot be changed: records are frozen")


def _reduce(self: Any) -> tuple[Any, ...]:
    return _rebuild, (type(self), *(getattr(self, name) for name in _names_of(self)))


def _rebuild(kind: type, *values: object) -> Any:
    """What pickle and copy call: without asking `__init__`, which may take some fields by name only."""
    record: Any = object.__new__(kind)
    for name, value in zip(_names_of(kind), values, strict=True):
        object.__setattr__(record, name, value)
    return record


_METHODS: Mapping[str, Any] = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__reduce__": _reduce,
}


# --- lazy ---
# Regular expressions that are compiled when they are first used, not when their room is imported.
#
# A process of memdir lives for a tenth of a second and imports rooms of which it uses a part. Compiling a pattern
# takes
# as long as importing a small room, and most patterns are never asked.


class _Late:
    """Stands for a pattern until somebody asks for one of its methods, and keeps that method then."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


def compile_late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, later."""
    return cast("re.Pattern[str]", _Late(pattern, flags))


# --- once ---
# Kept as by `functools.cache`, but made once: threads that need the same thing wait for the one that makes it.
#
# The patterns of a language take a large part of a second to compile. A hundred users who come at the same moment
# would
# otherwise each compile them, and wait for all the others doing so.

Given = ParamSpec("Given")
Made = TypeVar("Made")
_MAKING = threading.RLock()  # one for all: what is made may need another thing that is made once


def once(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """The function, called once for each of the arguments it is ever given; they go by place and are hashable."""
    kept: dict[tuple[object, ...], Made] = {}

    @wraps(make)
    def find(*given: Given.args, **_: Given.kwargs) -> Made:
        try:
            return kept[given]
        except KeyError:
            pass
        with _MAKING:
            if given not in kept:
                kept[given] = make(*given, **_)
            return kept[given]

    return find
