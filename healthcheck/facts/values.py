"""The base of every fact: fields that hold a value, or refuse to be read because there is none.

A fact is a class that derives from `Fact` and declares its fields as a dataclass does. It is made with a
value for each field, or with `Unmeasured(reason)` or `UNSUPPORTED` (the device has no such thing) in the
value's place. Such a field is absent: reading it raises NotMeasured or NotSupported, so that no check can
take it for a value. Fields are annotated with the value's type alone. Code that is no check reads with
`reading`, which returns the value or the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import FrozenInstanceError, dataclass
from dataclasses import field as field_of
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from healthcheck.model.outcome import Origin

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:
    def dataclass_transform(**_: object) -> Callable[[type], type]:
        """For type checkers only."""
        return lambda kind: kind

F = TypeVar("F", bound="Fact")
T = TypeVar("T")


@dataclass(frozen=True)
class Unmeasured:
    """A value that is not known, and why, in one line.

    `asked` are the subjects, as findings call them, that were asked and did not answer, where the reason is
    theirs and not ours: a finding that one of them does not answer is the cause.
    """

    reason: str
    origin: Origin = Origin.NODE
    asked: tuple[str, ...] = field_of(default=(), compare=False)


class Unsupported(Enum):
    """The type of `UNSUPPORTED`: the device says that it has no such thing."""

    UNSUPPORTED = "unsupported"


UNSUPPORTED = Unsupported.UNSUPPORTED
_ABSENT = frozenset((Unmeasured, Unsupported))


@dataclass(frozen=True)
class Partial:
    """A fact that was measured in part: a check may find faults in the part, but cannot pass."""

    value: Any
    reason: str


class Unread(Exception):
    """Raised inside a fact builder: a capture that it needs is missing; its text is the reason. `asked` as in
    Unmeasured."""

    def __init__(self, reason: str, asked: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.asked = asked


class Refusal(Exception):
    """A field that could not be read. Within `refusals` each one is recorded, caught or not.

        Refusal
        +-- NotMeasured     it may be there, and was not measured
        +-- NotSupported    the device has no such thing
    """

    def __init__(self, fact: Fact | None, *words: object) -> None:
        """`source` is the identity of what refused: the fact's, which several nodes may share, or for the
        growth of one node's that of both."""
        super().__init__(fact, *words)
        self.fact = fact
        self.source: object = id(fact)
        recorded = _RECORDED.get()
        if recorded is not None:
            recorded.append(self)

    @property
    def details(self) -> object:
        """All that it says of its source."""
        return self.args[1:]


class NotMeasured(Refusal):
    """A field that was not measured was read: its fact (None: no single one), and the reason. `asked` as in
    Unmeasured."""

    def __init__(self, fact: Fact | None, reason: str, origin: Origin = Origin.NODE,
                 asked: tuple[str, ...] = ()) -> None:
        super().__init__(fact, reason)
        self.reason = reason
        self.origin = origin
        self.asked = asked

    def __str__(self) -> str:
        return self.reason

    @property
    def details(self) -> object:
        return self.reason, self.origin, self.asked


class NotSupported(Refusal):
    """A field that the device does not have was read: its fact, and the field."""

    def __init__(self, fact: Fact, field: str) -> None:
        super().__init__(fact, field)
        self.field = field

    def __str__(self) -> str:
        return f"{self.fact.name if self.fact is not None else ''}: {self.field} is not supported"


_RECORDED: ContextVar[list[Refusal] | None] = ContextVar("refusals", default=None)


class refusals:
    """A context in which every refusal goes into this list; with None they are not recorded."""

    __slots__ = ("_into", "_token")

    def __init__(self, into: list[Refusal] | None) -> None:
        self._into = into

    def __enter__(self) -> None:
        self._token = _RECORDED.set(self._into)

    def __exit__(self, *_: object) -> None:
        _RECORDED.reset(self._token)


class _Field:
    """A field on its class: asked for what is absent alone, as a fact's own value comes before it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, fact: Fact | None, kind: type[Fact]) -> Any:
        if fact is None:
            raise AttributeError(f"{kind.__name__}.{self._name} is a field: only a fact has a value of it")
        absent = fact.__dict__.get(_ABSENT_FIELDS)
        if absent is None or self._name not in absent:
            raise AttributeError(f"{kind.__name__}.{self._name} was not kept")
        value = absent[self._name]
        if type(value) is Unmeasured:
            raise NotMeasured(fact, value.reason, value.origin, value.asked)
        raise NotSupported(fact, self._name)


@dataclass_transform(frozen_default=True, eq_default=False)
class Fact:
    """Base of all facts: frozen, and made with a value for each field (`FIELDS`, in order, with their types),
    by position or by name.

    Each has a `name` that is always measured: the subject as findings call it.

    `caveat` says what a PASS over this fact does not cover, and is shown beside it; mostly empty. The fields
    named in `IDENTITY` identify a subject in any snapshot. Facts are equal, and have the same hash, if all
    their values and absent fields are.
    """

    name: str
    caveat: str = ""
    IDENTITY: ClassVar[tuple[str, ...]] = ("name",)
    FIELDS: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        """Raises TypeError for a field with a default: an unmeasured field would look like a value."""
        super().__init_subclass__()
        own = {field: str(kind) for field, kind in vars(cls).get("__annotations__", {}).items()
               if not str(kind).startswith(("ClassVar", "typing.ClassVar"))}
        for field in own:
            if field in vars(cls):
                raise TypeError(f"{cls.__name__}.{field} has a default; a field of a fact is given each time")
            if field != "caveat":       # which is "" where it is absent: the engine reads it
                setattr(cls, field, _Field(field))
        cls.FIELDS = {**cls.FIELDS, **own}
        inherited = next(base for base in cls.__mro__[1:] if issubclass(base, Fact))
        # IDENTITY may be of a class that is no fact; an `identity` of the author's own stays.
        if not TYPE_CHECKING and cls.IDENTITY != inherited.IDENTITY and cls.identity is inherited.identity:
            read = attrgetter(*cls.IDENTITY)
            cls.identity = property(read if len(cls.IDENTITY) > 1 else lambda fact: (read(fact),))

    if not TYPE_CHECKING:
        # One constructor for all: @dataclass would generate a hundred, a tenth of the time to load the rules,
        # and would set fields one by one, most of the cost of hundreds of links and GPUs with 75 fields.
        def __init__(self, *values: Any, **fields: Any) -> None:
            given = len(values) + len(fields)
            if values:
                fields = {**dict(zip(self.FIELDS, values)), **fields}  # noqa: B905  (too many are found below)
            if given != len(self.FIELDS) or fields.keys() != self.FIELDS.keys():
                wrong = ", ".join(sorted(fields.keys() ^ self.FIELDS.keys())) or f"{given} values"
                raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.FIELDS)}; "
                                f"missing or not among them: {wrong}")
            self.__dict__.update(fields)
            if not _ABSENT.isdisjoint(map(type, fields.values())):
                self._set_aside()

        def __post_init__(self) -> None:
            # A plug-in's fact may be a dataclass besides, whose own __init__ ends here.
            self._set_aside()

        def _set_aside(self) -> None:
            held = self.__dict__
            absent = {field: value for field, value in held.items() if type(value) in _ABSENT}
            for field in absent:
                del held[field]
            if absent:
                held[_ABSENT_FIELDS] = absent

        def __setattr__(self, field: str, value: object) -> None:
            raise FrozenInstanceError(f"{type(self).__name__}.{field} cannot be set: use `changed`")

        def __delattr__(self, field: str) -> None:
            raise FrozenInstanceError(f"{type(self).__name__}.{field} cannot be taken away")

    @classmethod
    def absent(cls: type[F], name: str, why: Unmeasured | Unsupported = UNSUPPORTED) -> F:
        """The fact of this name without any value."""
        return cls(**{**dict.fromkeys(cls.FIELDS, why), "name": name})

    @property
    def identity(self) -> tuple[Any, ...]:
        """The values of IDENTITY. Raises NotMeasured or NotSupported."""
        return (self.name,)

    def full(self, counter: str) -> int | None:
        """The value at which this counter stops counting; None where it has none."""
        return None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Fact) and type(self) is type(other)
                                 and readings(self) == readings(other))

    def __hash__(self) -> int:
        return hash((type(self), *readings(self).values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}={value!r}" for field, value in readings(self).items())
        return f"{type(self).__name__}({fields})"


# No field has such a name.
_ABSENT_FIELDS = "absent fields"


def readings(fact: Fact) -> dict[str, Any]:
    """Every field of a fact in the order of its class: its value, or Unmeasured or UNSUPPORTED; without
    what `narrowed` left out."""
    held = fact.__dict__
    absent = held.get(_ABSENT_FIELDS, {})
    return {field: held[field] if field in held else absent[field] for field in fact.FIELDS
            if field in held or field in absent}


def narrowed(fact: F, fields: Collection[str]) -> F:
    """The fact with these fields alone. Reading another one raises AttributeError."""
    held = fact.__dict__
    made = object.__new__(type(fact))
    kept = {field: held[field] for field in fields if field in held}
    absent = held.get(_ABSENT_FIELDS, {})
    if refused := {field: absent[field] for field in fields if field in absent}:
        kept[_ABSENT_FIELDS] = refused
    made.__dict__.update(kept)
    return made


def reading(fact: Fact, field: str) -> Any:
    """One field or property of a fact: its value, or Unmeasured or UNSUPPORTED. It records no refusal, so
    checks must not use it."""
    held = fact.__dict__
    if field in held:
        return held[field]
    with refusals(None):
        return attempt(lambda: getattr(fact, field))


def parted(found: Any) -> tuple[Any, str]:
    """The value of a fact that was measured, and why it is Partial; "" where it is whole."""
    return (found.value, found.reason) if isinstance(found, Partial) else (found, "")


def first_unread(values: Iterable[Any]) -> Unmeasured | None:
    """The first of these that was not measured."""
    for value in values:
        if isinstance(value, Unmeasured):
            return value
    return None


def partial_if(value: T, reason: str | None) -> T | Partial:
    """The value, as Partial where there is a reason."""
    return Partial(value, reason) if reason else value


def changed(fact: F, **fields: Any) -> F:
    """The fact with other values in these fields, as dataclasses.replace."""
    return type(fact)(**{**readings(fact), **fields})


def attempt(read: Callable[[], T]) -> T | Unmeasured | Unsupported:
    """What `read` returns; Unmeasured or UNSUPPORTED where it is refused."""
    try:
        return read()
    except NotMeasured as refused:
        return Unmeasured(refused.reason, refused.origin, refused.asked)
    except NotSupported:
        return UNSUPPORTED


def readable(subjects: Iterable[F], read: Callable[[F], T]) -> Iterator[tuple[F, T]]:
    """Each subject with the result of `read`, without those that refuse: they are recorded, and UNKNOWN by
    themselves."""
    for subject in subjects:
        try:
            value = read(subject)
        except Refusal:
            continue
        yield subject, value
