"""The child's side of `pipeline.probe`: takes a module apart and tries each distinct operation alone."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from . import shape_libraries
from .dialect_passes import pipelines
from .stages import REASON, passes_between

_CONSTANTS = ("torch.constant.", "torch.prim.List", "torch.prim.Tuple", "torch.vtensor.literal")
# Custom operators that keep a lowering of their own are calls.
_NOT_OPERATORS = (*_CONSTANTS, "func.", "torch.tensor_static_info_cast")


def probe_module(module: ir.Module, folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Tries the operations of `module`; notes the one being tried in the file "probing"."""
    distinct: dict[str, dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    _refine(module, shape_libraries.written(folder))
    for op in _operators(module):
        with module.context:
            text = _single(op)
        key = text + str(op.attributes)
        entry = distinct.setdefault(
            key,
            {
                "operator": operator_name(op),
                "text": text,
                "refused": _refusal(op),
                "frames": [],
                "number": str(len(distinct)),
                "libraries": shape_libraries.written(folder),
            },
        )
        counts[key] += 1
        entry["frames"].append(_frames(op))
    operations = []
    for key, entry in distinct.items():
        (folder / "probing").write_text(entry["number"])
        crashed = job["crashed"].get(entry["number"])
        problem, lowers_to = (f"torch-mlir fails on it: {crashed}", []) if crashed else _try(entry)
        operations.append(
            {
                "operator": entry["operator"],
                "count": counts[key],
                "problem": problem,
                "lowers_to": lowers_to,
                "frames": entry["frames"],
            }
        )
    return {"operations": operations}


def _refine(module: ir.Module, libraries: list[str]) -> None:
    """Fills in the types that custom operators' lowerings left open, and puts them where they are called.

    Without types nothing lowers, and the user's line is that of the call.
    """
    ((_, passes),) = passes_between("torch", "refined", libraries)
    with module.context, contextlib.suppress(pipelines.PassError):
        pipelines.run(module, [pipelines.expand(passes)[0], "inline"])


def operator_name(op: ir.Operation) -> str:
    """The operator as PyTorch writes it: ``aten.add.Tensor``."""
    name = ir.StringAttr(op.attributes["name"]).value if op.name == "torch.operator" else op.name
    return name.removeprefix("torch.")


def _refusal(op: ir.Operation) -> str | None:
    """Why capture put a stand-in here (see `pipeline.refusals`); None for ordinary operators."""
    return ir.StringAttr(op.attributes[REASON]).value if REASON in op.attributes else None


def _operators(module: ir.Module) -> Iterator[ir.Operation]:
    for function in module.body.operations:
        for block in function.regions[0].blocks:
            for op in block.operations:
                if not op.operation.name.startswith(_NOT_OPERATORS):
                    yield op.operation


def _frames(op: ir.Operation) -> list[list[str]]:
    frames = re.findall(r'"([^"]+)":(\d+)', str(op.location))
    # "-" is the text of a custom operator's lowering.
    return [list(frame) for frame in frames if frame[0] != "-"]


def _single(op: ir.Operation) -> str:
    """Text of a module with a function that does only `op`: its constants inside, the rest as arguments."""
    cloned: list[ir.Operation] = []
    arguments: list[ir.Value] = []
    _collect(op, cloned, arguments)
    names = {value: f"%arg{i}" for i, value in enumerate(arguments)}
    module = ir.Module.create(ir.Location.unknown())
    follow = _list_unpack(op)
    results = (follow or op).results
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        type_ = ir.FunctionType.get([v.type for v in arguments], [r.type for r in results])
        function = ir.Operation.create(
            "func.func",
            attributes={"sym_name": ir.StringAttr.get("main"), "function_type": ir.TypeAttr.get(type_)},
            regions=1,
        )
        block = function.regions[0].blocks.append(*type_.inputs)
    known = dict(zip(names, block.arguments, strict=True))
    with ir.InsertionPoint(block), ir.Location.unknown():
        for original in [*cloned, op, *([follow] if follow else [])]:
            copy = original.clone().operation
            for i, operand in enumerate(original.operands):
                copy.operands[i] = known[operand]
            known.update(zip(original.results, copy.results, strict=True))
        ir.Operation.create("func.return", operands=[known[result] for result in results])
    return module.operation.get_asm(enable_debug_info=False)


def _collect(op: ir.Operation, cloned: list[ir.Operation], arguments: list[ir.Value]) -> None:
    for operand in op.operands:
        owner = operand.owner
        owner = None if isinstance(owner, ir.Block) else owner.operation
        if owner is not None and owner.name.startswith(_CONSTANTS):
            if owner not in cloned:
                _collect(owner, cloned, arguments)
                cloned.append(owner)
        elif operand not in arguments:
            arguments.append(operand)


def _list_unpack(op: ir.Operation) -> ir.Operation | None:
    """A list cannot leave a function: its unpacking comes along."""
    if len(op.results) == 1 and str(op.results[0].type).startswith("!torch.list<"):
        for use in op.results[0].uses:
            return use.owner.operation
    return None


def _try(entry: dict[str, Any]) -> tuple[str | None, list[str]]:
    if entry["refused"]:
        return entry["refused"], []
    context = ir.Context()
    torch_dialect.register_dialect(context)
    with context:
        module = ir.Module.parse(entry["text"])
        try:
            for _, pipeline in passes_between("torch", "linalg", entry["libraries"]):
                pipelines.run(module, pipelines.expand(pipeline))
        except pipelines.PassError as error:
            return _reason(entry, error), []
        return None, _lowered_names(module)


def _reason(entry: dict[str, Any], error: Any) -> str:
    if 'torch.operator"' in entry["text"] or "torch.operator " in entry["text"]:
        return "torch-mlir knows no such operator and no decomposition turns it into others"
    message = re.sub(r'^.*?"<?[^"]*>?":\d+:\d+\)?: ', "", error.diagnostics.splitlines()[0])
    return f"it has no lowering for these types and arguments ({message[:200]})"


def _lowered_names(module: ir.Module) -> list[str]:
    found: set[str] = set()

    def visit(op: Any) -> Any:
        if op.operation.name.partition(".")[0] in ("linalg", "tm_tensor", "scf", "tensor", "math", "arith"):
            found.add(op.operation.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    interesting = {name for name in found if name.startswith(("linalg.", "tm_tensor."))} - {"linalg.yield"}
    return sorted(interesting or found)
