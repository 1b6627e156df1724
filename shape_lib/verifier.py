"""The last word of refinement: every tensor has a rank and a dtype, or the program cannot be lowered."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from torch_mlir import ir

from .errors import Finding, UnrefinedError
from .refinement.operations import every_operation, finding
from .tensor_types import TensorInfo, is_value_tensor, parse


def verify_refined(module: ir.Module) -> None:
    """Raises UnrefinedError with every tensor of `module` that is not typed, or may be changed in place."""
    # Printing types costs more than all else here, and a program has few distinct ones.
    problem_of = cache(lambda type_: _problem(str(type_)))
    findings = [
        found for function in module.body.operations for found in _arguments(function.operation, problem_of)
    ]
    for op in every_operation(module):
        for i, result in enumerate(op.results):
            problem = problem_of(result.type)
            if problem:
                which = f"result {i}: " if len(op.results) > 1 else ""
                findings.append(finding(op, f"{which}{problem}"))
    if findings:
        raise UnrefinedError(findings)


def _arguments(function: ir.Operation, problem_of: Callable[[ir.Type], str | None]) -> list[Finding]:
    if function.name != "func.func" or not len(function.regions[0].blocks):
        return []
    name = ir.StringAttr(function.attributes["sym_name"]).value
    problems = [problem_of(argument.type) for argument in function.regions[0].blocks[0].arguments]
    return [Finding(f"argument {i} of {name}", problem) for i, problem in enumerate(problems) if problem]


def _problem(type_: str) -> str | None:
    tensor = parse(type_)
    if tensor is None:
        return None
    if not tensor.refined:
        return _unknown(tensor)
    return None if is_value_tensor(type_) else "it may be changed in place"


def _unknown(tensor: TensorInfo) -> str:
    missing = [name for name, known in (("rank", tensor.sizes), ("dtype", tensor.dtype)) if known is None]
    return f"its {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} unknown"
