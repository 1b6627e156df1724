"""The home of `pipeline.op`: custom operators, with the compiler that their `check` uses."""

from pipeline.dialect_passes.custom_operators.declaration import CustomOp, op

__all__ = ["CustomOp", "op"]
