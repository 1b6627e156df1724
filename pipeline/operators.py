"""The home of `pipeline.op` and what declarations use, with the compiler that their `check` uses."""

from pipeline.dialect_passes.custom_operators.declaration import CustomOp, op
from pipeline.dialect_passes.custom_operators.launch import Launch
from pipeline.dialect_passes.custom_operators.lowering import Refused
from pipeline.dialect_passes.custom_operators.sizes import ceildiv

__all__ = ["CustomOp", "Launch", "Refused", "ceildiv", "op"]
