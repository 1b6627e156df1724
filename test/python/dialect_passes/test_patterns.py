"""Patterns, pictures of several operations, inferred types and dead code, on IR without compiling."""

import pytest
from torch_mlir import ir
from torch_mlir.dialects import torch

from pipeline.dialect_passes import pipelines, registry
from pipeline.dialect_passes.dead_code import erase_dead
from pipeline.dialect_passes.matching import number, numbers, op, value
from pipeline.dialect_passes.patterns import Pattern, Rewriter, pattern, rewrite_greedily, rewrite_once
from pipeline.dialect_passes.torch_ops import constant, producer

X = "!torch.vtensor<[?,4],f32>"


@pytest.fixture(scope="module")
def context():
    context = ir.Context()
    torch.register_dialect(context)
    return context


def module(context, body: str) -> ir.Module:
    return ir.Module.parse(f"func.func @f(%x: {X}, %y: {X}) -> {X} {{\n{body}\n}}", context)


def operators(module: ir.Module) -> list[str]:
    block = module.body.operations[0].regions[0].blocks[0]
    return [op.operation.name.removeprefix("torch.") for op in block.operations]


@pattern
def double_negation(op: torch.AtenNegOp, make: Rewriter) -> ir.Value | None:
    inner = producer(op.self_)
    return inner.operands[0] if inner is not None and inner.name == op.name else None


@pattern
def square(op: torch.AtenPowTensorScalarOp, make: Rewriter) -> ir.Value | None:
    return make("aten.mul.Tensor", op.self_, op.self_) if constant(op.exponent) == 2 else None


SILU = op("aten.mul.Tensor", op("aten.sigmoid", value("x"), once=True), value("x"), commutes=True)


@pattern(SILU)
def silu(root: ir.Operation, make: Rewriter, x: ir.Value) -> ir.Value | None:
    return make("aten.silu", x, result=x.type)


PROGRAM = f"""
  %0 = torch.aten.neg %x : {X} -> {X}
  %1 = torch.aten.neg %0 : {X} -> {X}
  %two = torch.constant.int 2
  %2 = torch.aten.pow.Tensor_Scalar %1, %two : {X}, !torch.int -> {X}
  %3 = torch.aten.sigmoid %2 : {X} -> {X}
  %4 = torch.aten.mul.Tensor %2, %3 : {X}, {X} -> {X}
  return %4 : {X}"""


@pytest.mark.parametrize("driver", [rewrite_greedily, rewrite_once])
def test_matches_are_replaced_and_nothing_dead_is_left(context, driver):
    program = module(context, PROGRAM)
    assert driver(program, [double_negation, square, silu]) == 3
    assert operators(program) == ["aten.mul.Tensor", "aten.silu", "func.return"]
    made = program.body.operations[0].regions[0].blocks[0].operations[0]
    # Inferred, the open size too.
    assert str(made.operation.results[0].type) == X
    program.operation.verify()


def test_a_picture_needs_the_same_value_and_no_other_use(context):
    different = PROGRAM.replace("torch.aten.mul.Tensor %2,", "torch.aten.mul.Tensor %1,")
    assert rewrite_once(module(context, different), [silu]) == 0
    used_twice = PROGRAM.replace(
        "return %4", f"%5 = torch.aten.mul.Tensor %3, %4 : {X}, {X} -> {X}\n return %5"
    )
    assert rewrite_once(module(context, used_twice), [silu]) == 0


def test_numbers_are_matched_and_made(context):
    program = module(
        context,
        f"""
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %dims = torch.prim.ListConstruct %zero, %one : (!torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.permute %x, %dims : {X}, !torch.list<int> -> {X}
  %1 = torch.aten.add.Tensor %0, %y, %one : {X}, {X}, !torch.int -> {X}
  return %1 : {X}""",
    )
    found = []

    @pattern(
        op("aten.add.Tensor", op("aten.permute", value("a"), numbers("dims")), value("b"), number(equal=1))
    )
    def swap(root, make, a, b, dims):
        found.append(dims)
        return make("aten.add.Tensor", make("aten.permute", b, [1, 0], result=b.type), a, 2.5, result=a.type)

    assert rewrite_once(program, [swap]) == 1
    assert found == [[0, 1]]
    assert "torch.constant.float 2.5" in str(program)


def test_dead_code_spares_effects(context):
    program = module(
        context,
        f"""
  %one = torch.constant.int 1
  %0 = torch.aten.neg %x : {X} -> {X}
  %1 = torch.aten.neg %0 : {X} -> {X}
  %list = torch.prim.ListConstruct %one : (!torch.int) -> !torch.list<int>
  %2 = torch.aten.append.t %list, %one : !torch.list<int>, !torch.int -> !torch.list<int>
  return %x : {X}""",
    )
    erase_dead(program)
    assert operators(program) == ["constant.int", "prim.ListConstruct", "aten.append.t", "func.return"]


def test_types_that_contradict_are_refused_and_wider_ones_cast(context):
    @pattern
    def widen(op: torch.AtenNegOp, make: Rewriter) -> ir.Value | None:
        return make("aten.abs", op.self_, result="!torch.vtensor<[?,?],f32>")

    @pattern
    def contradict(op: torch.AtenNegOp, make: Rewriter) -> ir.Value | None:
        return make("aten.abs", op.self_, result="!torch.vtensor<[7],f32>")

    text = f"  %0 = torch.aten.neg %x : {X} -> {X}\n  return %0 : {X}"
    program = module(context, text)
    assert rewrite_once(program, [widen]) == 1
    assert operators(program) == ["aten.abs", "tensor_static_info_cast", "func.return"]
    with pytest.raises(ValueError, match="cannot be replaced by"):
        rewrite_once(module(context, text), [contradict])


@pytest.mark.parametrize("driver", [rewrite_greedily, rewrite_once])
def test_a_pass_that_raises_names_operation_and_both_lines(context, driver, monkeypatch):
    def fail(op, make):
        raise KeyError("no such thing")

    monkeypatch.setitem(registry.PASSES, "raising", "")
    monkeypatch.setattr(
        pipelines,
        "load_pass",
        lambda name: lambda module: driver(module, [Pattern(fail, ("torch.aten.neg",))]),
    )
    program = module(context, f'  %0 = torch.aten.neg %x : {X} -> {X} loc("model.py":7:0)\n  return %0 : {X}')
    with pytest.raises(pipelines.PassError) as caught:
        pipelines.run(program, ["raising"])
    assert "KeyError: 'no such thing' at aten.neg (model.py:7), raised by" in str(caught.value)
    assert "test_patterns.py:" in str(caught.value)


def test_a_pass_that_leaves_invalid_ir_fails(context, monkeypatch):
    def break_it(module):
        block = module.body.operations[0].regions[0].blocks[0]
        block.operations[len(block.operations) - 1].operation.erase()

    monkeypatch.setitem(registry.PASSES, "breaking", "")
    monkeypatch.setattr(pipelines, "load_pass", lambda name: break_it)
    with pytest.raises(pipelines.PassError, match="breaking"):
        pipelines.run(module(context, f"  return %x : {X}"), ["breaking"])
