"""Which state may be updated in place: none that is read after its update, or that another result may still hold."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pipeline

# %s is the state (argument 0), %x an input; the function returns a result and the new state (result 1).
CASES = {
    "computed from": ("%r = linalg.matmul ins(%s, %x : T, T) outs(%e : T) -> T", True),
    "reduced": (
        "%i = tensor.empty() : tensor<4xf32>\n"
        "%m = linalg.reduce ins(%s : T) outs(%i : tensor<4xf32>) dimensions = [1] "
        "(%a: f32, %b: f32) { %c = arith.addf %a, %b : f32\nlinalg.yield %c : f32 }\n"
        "%r = linalg.broadcast ins(%m : tensor<4xf32>) outs(%e : T) dimensions = [1]",
        True,
    ),
    "unrelated": ("%r = linalg.copy ins(%x : T) outs(%e : T) -> T", True),
    "the old value": ("%r = tensor.cast %s : T to T", False),
    "copied": ("%r = linalg.copy ins(%s : T) outs(%e : T) -> T", False),
    "reshaped and back": (
        "%f = tensor.collapse_shape %s [[0, 1]] : T into tensor<16xf32>\n"
        "%r = tensor.expand_shape %f [[0, 1]] output_shape [4, 4] : tensor<16xf32> into T",
        False,
    ),
    "a part, put elsewhere": (
        "%f = tensor.extract_slice %s[0, 0] [1, 4] [1, 1] : T to tensor<1x4xf32>\n"
        "%r = tensor.insert_slice %f into %x[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into T",
        False,
    ),
    "plus something that may be zero": (
        "%r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ['parallel', 'parallel']} "
        "ins(%s, %x : T, T) outs(%e : T) { ^bb0(%a: f32, %b: f32, %c: f32):\n"
        "%d = arith.addf %a, %b : f32\nlinalg.yield %d : f32 } -> T",
        False,
    ),
    "reduced over one element": (
        "%f = tensor.expand_shape %s [[0, 1], [2]] output_shape [4, 1, 4] : T into tensor<4x1x4xf32>\n"
        "%r = linalg.reduce ins(%f : tensor<4x1x4xf32>) outs(%e : T) dimensions = [1] "
        "(%a: f32, %b: f32) { %c = arith.addf %a, %b : f32\nlinalg.yield %c : f32 }",
        False,
    ),
    "gathered": (
        "%r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ['parallel', 'parallel']} "
        "ins(%x : T) outs(%e : T) { ^bb0(%a: f32, %c: f32):\n%i = linalg.index 0 : index\n"
        "%d = tensor.extract %s[%i, %i] : T\nlinalg.yield %d : f32 } -> T",
        False,
    ),
    "read element by element": (
        "%z = arith.constant 0 : index\n"
        "%r = tensor.generate { ^bb0(%i: index, %j: index):\n"
        "%a = tensor.extract %s[%j, %i] : T\ntensor.yield %a : f32 } : T",
        False,
    ),
    "chosen": ("%c = arith.constant true\n%r = arith.select %c, %s, %x : T", False),
    "from a branch": (
        "%c = arith.constant true\n%r = scf.if %c -> (T) { scf.yield %s : T } else { scf.yield %x : T }",
        False,
    ),
    "read by a kernel": ("%r = func.call @kernel(%s, %x) : (T, T) -> T", True),
    "changed by a kernel in its own memory": ("%r = func.call @changes(%s, %x) : (T, T) -> T", False),
    "handed through by a function": ("%q, %r = func.call @swap(%s, %x) : (T, T) -> (T, T)", False),
    "reduced by a function": ("%r = func.call @product(%s, %x) : (T, T) -> T", True),
    "given to an unknown function": ("%r = func.call @unknown(%s, %x) : (T, T) -> T", False),
}

# What the cases call.
FUNCTIONS = """
stream.executable private @library {
  stream.executable.export public @run
  builtin.module { func.func @run(%a: !stream.binding, %b: !stream.binding) { return } }
}
func.func private @kernel(%a: T, %b: T) -> T {
  %r = flow.dispatch @library::@run(%a, %b) : (T, T) -> T
  return %r : T
}
func.func private @changes(%a: T, %b: T) -> T {
  %r = flow.dispatch @library::@run(%a, %b) : (T, T) -> %a
  return %r : T
}
func.func private @swap(%a: T, %b: T) -> (T, T) { return %b, %a : T, T }
func.func private @product(%a: T, %b: T) -> T {
  %e = tensor.empty() : T
  %r = linalg.matmul ins(%a, %b : T, T) outs(%e : T) -> T
  return %r : T
}
func.func private @insert(%a: T, %b: T) -> T {
  %f = tensor.extract_slice %b[0, 0] [1, 4] [1, 1] : T to tensor<1x4xf32>
  %r = tensor.insert_slice %f into %a[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into T
  return %r : T
}
func.func private @unknown(T, T) -> T
"""

_IDENTITY = "linalg.generic {indexing_maps = [#id, #id], iterator_types = ['parallel', 'parallel']} "
_DOUBLED = "{ ^bb0(%a: f32, %c: f32):\n%d = arith.addf %a, %a : f32\nlinalg.yield %d : f32 } -> T\n"


def _double(source: str, result: str, maps: str = _IDENTITY) -> str:
    return f"{result} = {maps}ins({source} : T) outs(%e : T) {_DOUBLED}"


# The same function, which returns %r and the new state %n.
ORDERS = {
    "arithmetic": (_double("%s", "%m") + _double("%m", "%n"), True),
    "read on the way by another": (_double("%s", "%n") + _double("%n", "%r"), True),
    "not read": (_double("%x", "%n"), True),
    "read by what the new value does not depend on": (_double("%x", "%n") + _double("%s", "%r"), False),
    "read by another too": (_double("%s", "%n") + _double("%s", "%r"), False),
    "turned": (_double("%s", "%n", _IDENTITY.replace("[#id, #id]", "[#turned, #id]")), False),
    "turned on the way": (
        _double("%s", "%m") + _double("%m", "%n", _IDENTITY.replace("[#id, #id]", "[#turned, #id]")),
        False,
    ),
    "multiplied": ("%n = linalg.matmul ins(%s, %x : T, T) outs(%e : T) -> T\n", False),
    "a part written": (
        "%f = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] : T to tensor<1x4xf32>\n"
        "%n = tensor.insert_slice %f into %s[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into T\n"
        + _double("%n", "%r"),
        True,
    ),
    "a part written by a function": ("%n = func.call @insert(%s, %x) : (T, T) -> T\n", True),
    "multiplied by a function": ("%n = func.call @product(%s, %x) : (T, T) -> T\n", False),
    "a part moved": (
        "%f = tensor.extract_slice %s[0, 0] [1, 4] [1, 1] : T to tensor<1x4xf32>\n"
        "%n = tensor.insert_slice %f into %s[1, 0] [1, 4] [1, 1] : tensor<1x4xf32> into T\n",
        False,
    ),
}

SCRIPT = """
import json, sys
from iree.compiler import ir
from pipeline.in_place import is_returned_unchanged, may_update_in_place

found = {}
for name, text in json.load(sys.stdin).items():
    with ir.Context():
        module = ir.Module.parse(text)
        block = module.body.operations[0].operation.regions[0].blocks[0]
        found[name] = [not is_returned_unchanged(block, 0, 1), may_update_in_place(block, 0, 1)]
print(json.dumps(found))
"""


def _module(body: str, new: str) -> str:
    result = "%r" if "%r" in body else "%x"
    text = (
        "#id = affine_map<(i, j) -> (i, j)>\n#turned = affine_map<(i, j) -> (j, i)>\n"
        "func.func @f(%s: T, %x: T) -> (T, T) {\n%e = tensor.empty() : T\n"
        + body.replace("'", '"')
        + f"\nreturn {result}, {new} : T, T\n}}"
        + FUNCTIONS
    )
    return re.sub(r"\bT\b", "tensor<4x4xf32>", text)


@pytest.fixture(scope="module")
def found() -> dict[str, list[bool]]:
    """The answers, from a process of its own: this one may hold torch-mlir's copy of MLIR."""
    texts = {name: _module(body, "%x") for name, (body, _) in CASES.items()}
    texts |= {name: _module(body, "%n") for name, (body, _) in ORDERS.items()}
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CASES)
def test_old_values_among_the_results(found: dict[str, list[bool]], name: str) -> None:
    assert found[name][0] is CASES[name][1]


@pytest.mark.parametrize("name", ORDERS)
def test_reads_before_the_update(found: dict[str, list[bool]], name: str) -> None:
    assert found[name][1] is ORDERS[name][1]


class ReadLate(torch.nn.Module):
    """Buffers that are read, or read at other places, when their new values are long known."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("late", torch.randn(64, 64))
        self.register_buffer("turned", torch.randn(64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        late = self.late * 2 + x
        result = torch.softmax(torch.softmax(x @ x, -1) @ x, -1) @ self.late
        self.late.copy_(late)
        self.turned.copy_(self.turned.t() + x)
        return result


def test_a_late_read_sees_the_old_value() -> None:
    model, x = ReadLate(), torch.randn(64, 64) / 8
    executable = pipeline.compile(model, args=(x,))
    for _ in range(2):
        torch.testing.assert_close(executable(x), model(x))
    torch.testing.assert_close(executable.state_dict(), dict(model.named_buffers()))
