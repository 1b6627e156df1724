"""One call, with its arguments evaluated on demand."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .context import Context
from .expressions import evaluate
from .types import Type
from .values import Value, Variables


@dataclass(frozen=True)
class Call:
    """A call where it stands; `want` is the type that is wanted of it, where one is."""

    context: Context
    node: ast.Call
    variables: Variables
    want: Type | None

    def argument(self, index: int, want: Type | None = None) -> Value:
        return evaluate(self.context, self.node.args[index], self.variables, want)

    def arguments(self) -> list[Value]:
        return [self.argument(index) for index in range(len(self.node.args))]

    def prelude(self, name: str, *arguments: Value) -> Value:
        return self.context.prelude(name, list(arguments), self.variables, self.node)

    def keyword(self, name: str) -> Value | None:
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return evaluate(self.context, keyword.value, self.variables)
        return None

    def expect(self, least: int, most: int, *keywords: str) -> None:
        """Raises ShapeLibraryError unless there are so many arguments, and no keywords but these."""
        name = ast.unparse(self.node.func)
        unknown = [keyword.arg or "**" for keyword in self.node.keywords if keyword.arg not in keywords]
        if unknown:
            raise self.error(f"{name}: `{unknown[0]}=` is not supported")
        if not least <= len(self.node.args) <= most:
            raise self.error(f"{name} with {len(self.node.args)} arguments is not supported")

    def error(self, message: str) -> Exception:
        return self.context.error(self.node, message)
