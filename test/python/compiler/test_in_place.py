"""Which state may be updated in place: none whose old value another result may still hold."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
func.func private @unknown(T, T) -> T
"""

SCRIPT = """
import json, sys
from iree.compiler import ir
from pipeline.in_place import may_update_in_place

found = {}
for name, text in json.load(sys.stdin).items():
    with ir.Context():
        module = ir.Module.parse(text)
        block = module.body.operations[0].operation.regions[0].blocks[0]
        found[name] = may_update_in_place(block, 0, 1)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, bool]:
    """The answers, from a process of its own: this one may hold torch-mlir's copy of MLIR."""
    texts = {
        name: "#id = affine_map<(i, j) -> (i, j)>\n"
        + "func.func @f(%s: T, %x: T) -> (T, T) {\n%e = tensor.empty() : T\n".replace("T", "tensor<4x4xf32>")
        + body.replace("'", '"').replace("T", "tensor<4x4xf32>")
        + "\nreturn %r, %x : tensor<4x4xf32>, tensor<4x4xf32>\n}"
        + FUNCTIONS.replace("T", "tensor<4x4xf32>")
        for name, (body, _) in CASES.items()
    }
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
def test_in_place(found: dict[str, bool], name: str) -> None:
    assert found[name] is CASES[name][1]
