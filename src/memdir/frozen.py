"""Frozen records with slots like those of `dataclasses`, in a tenth of the time; patterns and values made on first use.

Every memdir process, one per prompt, defines some fifty record classes, and the standard library takes half a millisecond for
each: a third of a cold recall. Here only `__init__` is compiled for each class, and only after a few records of it were made;
the other methods are shared.

Type checkers treat it as `dataclasses.dataclass`; at run time its records are copied with `replace` and read with `asdict` of
this module. Not supported: inheritance between records, `super()`, `__post_init__`, fields that are not in `__init__`, records
that are not frozen with slots.
"""

import re
from _thread import RLock
from collections.abc import Callable, Mapping
from functools import wraps
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar, cast, dataclass_transform

Record = TypeVar("Record")
Params = ParamSpec("Params")
Result = TypeVar("Result")
_MISSING: Any = object()
_FEW = 40  # this many records are filled without `__init__` in less time than it takes to compile it
_MAKING = RLock()  # one lock for all, because making a value may need another one


class FrozenError(AttributeError):
    """A field of a record was assigned; `replace` makes a changed copy."""


class _Spec:
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
    """Return the options of a field, like `dataclasses.field`."""
    return _Spec(default, default_factory, kw_only=kw_only, repr=repr, compare=compare)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def dataclass(*, frozen: bool = True, slots: bool = True, eq: bool = True) -> Callable[[type[Record]], type[Record]]:
    """Make a record like `dataclasses.dataclass`. `frozen` and `slots` must be True; they are passed for readers."""
    if not (frozen and slots):
        raise TypeError("a record is frozen and has slots")
    return lambda cls: _make_record(cls, eq=eq)


def replace(record: Record, /, **changes: Any) -> Record:
    unchanged = {name: getattr(record, name) for name in list_fields(record) if name not in changes}
    return type(record)(**unchanged, **changes)


def fill(record: Record, table: Mapping[str, object]) -> Record:
    """Return a copy of a record with values from a dict, ignoring values of a different type."""
    known = {name: table[name] for name in list_fields(record) if name in table}
    return replace(
        record, **{name: value for name, value in known.items() if type(value) is type(getattr(record, name))}
    )


def asdict(record: object) -> dict[str, Any]:
    """Return a record's fields with their values; nested records stay records."""
    return {name: getattr(record, name) for name in list_fields(record)}


def list_fields(record: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = record.__match_args__
    return names


def _make_record(cls: type[Record], *, eq: bool) -> type[Record]:
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    defaults = {name: body.pop(name, _MISSING) for name in cls.__annotations__}
    specs = {name: value if isinstance(value, _Spec) else field(default=value) for name, value in defaults.items()}
    if unsafe := [name for name, spec in specs.items() if type(spec.default).__hash__ is None]:
        raise ValueError(f"mutable default for {', '.join(unsafe)} of {cls.__qualname__}: use default_factory")
    # The class is built again with slots, and `super()` would still refer to the first one.
    codes = [getattr(value, "__code__", None) for value in vars(cls).values()]
    if "__post_init__" in vars(cls) or any("__class__" in getattr(code, "co_freevars", ()) for code in codes):
        raise TypeError(f"{cls.__qualname__}: records have no __post_init__ and do not call super()")
    compared = [name for name, spec in specs.items() if spec.compare]
    body["__slots__"] = body["__match_args__"] = tuple(specs)
    body["__init__"] = _make_first_init(cls.__qualname__, specs)
    body["_shown"] = tuple(name for name, spec in specs.items() if spec.repr)
    body["_key"] = staticmethod(attrgetter(*compared) if compared else (lambda record: ()))
    for name, method in _METHODS.items():
        if body.get(name) is None and (eq or name not in ("__eq__", "__hash__")):
            body[name] = method
    # Slots cannot be added to a class, so build a new one with them.
    metaclass: Any = type(cls)
    record_class: type[Record] = metaclass(cls.__name__, cls.__bases__, body)
    return record_class


def _make_first_init(qualname: str, specs: Mapping[str, _Spec]) -> Any:
    """Return an `__init__` that fills the first records, then compiles the real one, which also checks arguments."""
    positional = [name for name, spec in specs.items() if not spec.kw_only]
    filled = 0

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal filled
        filled += 1
        if (
            filled <= _FEW
            and len(args) <= len(positional)
            and _fill(self, specs, dict(zip(positional, args, strict=False)), kwargs)
        ):
            return
        real: Any = _compile_init(qualname, specs)
        # A subclass may have its own `__init__`, and another thread may have been first.
        for cls in type(self).__mro__:
            if vars(cls).get("__init__") is __init__:
                cast("Any", cls).__init__ = real
        real(self, *args, **kwargs)

    return __init__


def _fill(record: Any, specs: Mapping[str, _Spec], args: dict[str, Any], kwargs: dict[str, Any]) -> bool:
    """Set every field; return False if an argument is missing, unknown or passed twice."""
    values = args | kwargs
    if len(values) < len(args) + len(kwargs) or not values.keys() <= specs.keys():
        return False
    for name, spec in specs.items():
        if name not in values:
            if spec.default is _MISSING and spec.factory is _MISSING:
                return False
            values[name] = spec.default if spec.factory is _MISSING else spec.factory()
        object.__setattr__(record, name, values[name])
    return True


def _compile_init(qualname: str, specs: Mapping[str, _Spec]) -> Any:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    positional, named = ["self"], list[str]()
    lines: list[str] = []
    for name, spec in specs.items():
        argument, value = name, name
        if spec.factory is not _MISSING:
            scope[f"_make_{name}"] = spec.factory
            argument, value = f"{name}=_missing", f"_make_{name}() if {name} is _missing else {name}"
        elif spec.default is not _MISSING:
            scope[f"_default_{name}"] = spec.default
            argument = f"{name}=_default_{name}"
        (named if spec.kw_only else positional).append(argument)
        lines.append(f"\n    _set(self, {name!r}, {value})")
    arguments = ", ".join([*positional, *(["*", *named] if named else [])])
    # Compile first: a Ctrl-C during exec of a text sets Python's exit code even if it is caught.
    exec(compile(f"def __init__({arguments}) -> None:{''.join(lines) or ' pass'}", "<record>", "exec"), scope)
    scope["__init__"].__qualname__ = f"{qualname}.__init__"
    return scope["__init__"]


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._shown)})"


def _eq(self: Any, other: Any) -> bool:
    return bool(self._key(self) == other._key(other)) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._key(self))


def _refuse(self: object, name: str, *_: object) -> None:
    raise FrozenError(f"{type(self).__qualname__}.{name} cannot be changed: records are frozen")


def _reduce(self: Any) -> tuple[Any, ...]:
    return _rebuild, (type(self), *(getattr(self, name) for name in list_fields(self)))


def _rebuild(kind: type, *values: object) -> Any:
    """Create an empty record for pickle and copy without calling `__init__`."""
    record: Any = object.__new__(kind)
    for name, value in zip(list_fields(kind), values, strict=True):
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


class _Late:
    """A pattern that is compiled when one of its methods is first used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._arguments = pattern, flags

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(re.compile(*self._arguments), name)
        setattr(self, name, attribute)
        return attribute


def compile_late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled on first use.

    Compiling takes as long as importing a small module, and a process that lives for a tenth of a second never uses most
    patterns.
    """
    return cast("re.Pattern[str]", _Late(pattern, flags))


def once(make: Callable[Params, Result]) -> Callable[Params, Result]:
    """Cache results like `functools.cache`, but threads that need the same value wait for the one that makes it.

    The patterns of a language take a large part of a second to compile; a hundred users at the same moment would
    otherwise each compile them. Arguments are positional and hashable.
    """
    values: dict[tuple[object, ...], Result] = {}

    @wraps(make)
    def find(*args: Params.args, **_: Params.kwargs) -> Result:
        try:
            return values[args]
        except KeyError:
            pass
        with _MAKING:
            if args not in values:
                values[args] = make(*args, **_)
            return values[args]

    return find
