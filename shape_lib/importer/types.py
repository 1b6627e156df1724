"""The types that values of shape functions have, as `!torch` types and as Python annotations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    """Base of all types; `text` is what stands after `!torch.`."""

    @property
    def text(self) -> str:
        raise NotImplementedError

    @property
    def python(self) -> str:
        """The type as a user writes it, for messages."""
        return self.text

    def __str__(self) -> str:
        return f"!torch.{self.text}"


@dataclass(frozen=True)
class Scalar(Type):
    name: str
    annotation: str = ""

    @property
    def text(self) -> str:
        return self.name

    @property
    def python(self) -> str:
        return self.annotation or self.name


@dataclass(frozen=True)
class ListType(Type):
    """A list; the element type is None while only `[]` is known of it."""

    element: Type | None

    @property
    def text(self) -> str:
        return f"list<{self.element.text if self.element else '?'}>"

    @property
    def python(self) -> str:
        return f"list[{self.element.python}]" if self.element else "an empty list"


@dataclass(frozen=True)
class OptionalType(Type):
    inner: Type

    @property
    def text(self) -> str:
        return f"optional<{self.inner.text}>"

    @property
    def python(self) -> str:
        return f"{self.inner.python} | None"


@dataclass(frozen=True)
class TupleType(Type):
    elements: tuple[Type, ...]

    @property
    def text(self) -> str:
        return f"tuple<{', '.join(element.text for element in self.elements)}>"

    @property
    def python(self) -> str:
        return f"tuple[{', '.join(element.python for element in self.elements)}]"


INT = Scalar("int")
FLOAT = Scalar("float")
BOOL = Scalar("bool")
STR = Scalar("str")
NONE = Scalar("none", "None")
NUMBER = Scalar("number", "int | float")
ANY = Scalar("any", "Any")
DEVICE = Scalar("Device", "torch.device")
INT_LIST = ListType(INT)


def optional(inner: Type) -> Type:
    """`inner | None`, without nesting."""
    return inner if isinstance(inner, OptionalType) or inner in (NONE, ANY) else OptionalType(inner)


def subtype(narrow: Type, wide: Type) -> bool:
    """Whether torch-mlir takes a value of `narrow` where `wide` is written, in lists and by `derefine`."""
    if narrow == wide or wide == ANY:
        return True
    if isinstance(wide, OptionalType):
        inner = narrow.inner if isinstance(narrow, OptionalType) else narrow
        return narrow == NONE or subtype(inner, wide.inner)
    return wide == NUMBER and narrow in (INT, FLOAT)


def join(left: Type, right: Type) -> Type | None:
    """The type of a variable that is `left` on one path and `right` on another; None if there is none."""
    if subtype(left, right):
        return right
    if subtype(right, left):
        return left
    if NONE in (left, right) or isinstance(left, OptionalType) or isinstance(right, OptionalType):
        inner = join(_present(left, right), _present(right, left))
        return inner and optional(inner)
    if isinstance(left, ListType) and isinstance(right, ListType):
        return _join_lists(left, right)
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        return _join_tuples(left, right)
    return NUMBER if {left, right} <= {INT, FLOAT, NUMBER} else None


def _present(wanted: Type, other: Type) -> Type:
    """The type of `wanted` when it is not None; `other`'s when it always is."""
    if wanted == NONE:
        return _present(other, other)
    return wanted.inner if isinstance(wanted, OptionalType) else wanted


def _join_lists(left: ListType, right: ListType) -> Type | None:
    if left.element is None or right.element is None:
        return right if left.element is None else left
    return None


def _join_tuples(left: TupleType, right: TupleType) -> Type | None:
    if len(left.elements) != len(right.elements):
        return None
    joined = [join(a, b) for a, b in zip(left.elements, right.elements, strict=True)]
    return None if None in joined else TupleType(tuple(element for element in joined if element))


def has_value(type_: Type) -> bool:
    """Whether a value of this type needs an SSA value; `None` and `[]` of unknown element are known without."""
    return type_ != NONE and not (isinstance(type_, ListType) and type_.element is None)


def leaves(type_: Type) -> list[Type]:
    """The types of the values that a possibly nested tuple is made of."""
    if isinstance(type_, TupleType):
        return [leaf for element in type_.elements for leaf in leaves(element)]
    return [type_]
