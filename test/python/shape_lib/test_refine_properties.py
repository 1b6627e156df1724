"""Every shape function, refined on static and dynamic types, against the same function run as plain Python.

What refinement says must hold for what the function gives; where all is static it must say all of it, and where the
function raises it must raise as well.
"""

import copy
import importlib.util
import random
from pathlib import Path

import pytest
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from pipeline.shape_lib.errors import LibraryFunctionError, ShapeCheckError
from pipeline.shape_lib.importer import import_file
from pipeline.shape_lib.refine import refine_shapes
from pipeline.shape_lib.registry import registered
from pipeline.shape_lib.tensor_types import parse

FILE = Path(__file__).with_name("tricky_functions.py")
SAMPLES = 60


def load(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TRICKY = load(FILE)
WRITER = load(FILE.with_name("random_functions.py")).Writer
FUNCTIONS = {
    entry.operator.removeprefix("mylib."): entry.function
    for entry in registered()
    if entry.function.__module__ == "tricky_functions"
}
RAISING = (
    "broadcast",
    "collatz",
    "concatenated",
    "filled",
    "kept",
    "optional_bias",
    "split_in_two",
    "strided",
)


@pytest.fixture(scope="module")
def library():
    return import_file(FILE)


def draw(kinds, rng):
    """Random arguments; those of the kind "each" have one number per dimension of the first."""
    sizes = [rng.choice([0, 1, 1, 2, 3, 4, 5]) for _ in range(rng.randrange(4))]
    alike = [[rng.choice([2, 2, 2, 3]), rng.choice([1, 1, 1, 2])] for _ in range(rng.randrange(4))]
    choices = {
        "tensor": lambda: sizes,
        "other": lambda: [
            rng.choice([1, size, size, 2, 3]) for size in sizes[rng.randrange(len(sizes) + 1) :]
        ],
        "optional": lambda: rng.choice([None, [rng.choice([1, size, size, 2, 3]) for size in sizes]]),
        "tensors": lambda: alike,
        "int": lambda: rng.choice([-2, -1, 0, 1, 2, 3, 7]),
        "ints": lambda: [rng.choice([-1, 0, 1, 2]) for _ in range(rng.randrange(4))],
        "each": lambda: [rng.choice([1, 1, 2, 3]) for _ in range(rng.choice([len(sizes)] * 7 + [1]))],
        "bool": lambda: rng.random() < 0.5,
    }
    return [choices[kind]() for kind in kinds]


def tensor_type(sizes, rng, dynamic):
    """Some of the sizes hidden; rarely the rank too."""
    if dynamic and rng.random() < 0.1:
        return "!torch.vtensor<*,f32>"
    shown = ["?" if dynamic and rng.random() < 0.5 else str(size) for size in sizes]
    return f"!torch.vtensor<[{','.join(shown)}],f32>"


class Caller:
    """A function that makes one call: tensors are its parameters, scalars constants, or unknown in dynamic calls."""

    def __init__(self, operator, number, arguments, kinds, rng, dynamic):
        self.rng, self.dynamic, self.count = rng, dynamic, 0
        self.lines, self.parameters = [], []
        operands = [self.operand(kind, value) for kind, value in zip(kinds, arguments, strict=True)]
        results = ["!torch.vtensor"] * (2 if operator == "split_in_two" else 1)
        self.lines.append(
            f'%r:{len(results)} = torch.operator "torch.mylib.{operator}"({", ".join(n for n, _ in operands)}) : '
            f'({", ".join(t for _, t in operands)}) -> ({", ".join(results)}) loc("sample":{number}:0)'
        )
        body = "\n".join(self.lines)
        self.text = f"func.func @{operator}{number}_call({', '.join(self.parameters)}) {{\n{body}\nreturn\n}}"

    def name(self):
        self.count += 1
        return f"%v{self.count}"

    def operand(self, kind, value):
        if value is None:
            return self.define("torch.constant.none", "!torch.none")
        if kind in ("tensor", "other", "optional"):
            return self.parameter(tensor_type(value, self.rng, self.dynamic))
        if isinstance(value, list):
            parts = [self.operand("tensor" if kind == "tensors" else "int", element) for element in value]
            type_ = f"!torch.list<{'vtensor' if kind == 'tensors' else 'int'}>"
            names, types = ", ".join(n for n, _ in parts), ", ".join(t for _, t in parts)
            return self.define(f"torch.prim.ListConstruct {names} : ({types}) -> {type_}", type_)
        if self.dynamic and self.rng.random() < 0.3:
            return self.parameter(f"!torch.{kind}")
        return self.define(f"torch.constant.{kind} {str(value).lower()}", f"!torch.{kind}")

    def define(self, text, type_):
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name, type_

    def parameter(self, type_):
        name = self.name()
        self.parameters.append(f"{name}: {type_}")
        return name, type_


def refine(calls, library):
    """For each call the sizes of its results, as refinement says them."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    module = ir.Module.parse("\n".join(call.text for call in calls), context)
    refine_shapes(module, [library])
    found = []
    for function in module.body.operations:
        *_, operator, _ = function.regions[0].blocks[0].operations
        found.append([parse(str(result.type)).sizes for result in operator.results])
    return found


def run(function, arguments):
    """What plain Python gives: sizes per result; None when it raises, or gives what are no sizes."""
    try:
        result = function(*copy.deepcopy(arguments))
    except (AssertionError, IndexError, ZeroDivisionError):
        return None
    results = list(result) if isinstance(result, tuple) else [result]
    return (
        None if any(size < 0 for sizes in results for size in sizes) else [tuple(sizes) for sizes in results]
    )


def agrees(said, actual):
    return said is None or (
        len(said) == len(actual) and all(s is None or s == a for s, a in zip(said, actual, strict=True))
    )


def samples(operator, function=None, count=SAMPLES):
    """(call, is it dynamic, what Python gives) for random arguments, the same in every run."""
    rng = random.Random(operator)
    kinds = TRICKY.TAKES[operator] if function is None else ("tensor", "int")
    for number in range(count):
        dynamic = number % 2 == 1
        arguments = draw(kinds, rng)
        actual = run(function or FUNCTIONS[operator], arguments)
        yield Caller(operator, number, arguments, kinds, rng, dynamic), dynamic, actual


def compare(drawn, library):
    """The samples that give sizes, and what refinement says of them, which must agree."""
    good = [sample for sample in drawn if sample[2] is not None]
    found = refine([call for call, _, _ in good], library)
    for said, (call, dynamic, actual) in zip(found, good, strict=True):
        assert all(agrees(s, a) for s, a in zip(said, actual, strict=True)), (
            f"{said} is not {actual}\n{call.text}"
        )
        assert dynamic or said == actual, f"{said} is not all of {actual}\n{call.text}"
    return good, found


@pytest.mark.parametrize("operator", FUNCTIONS)
def test_refinement_says_what_python_gives(operator, library):
    good = [sample for sample in samples(operator) if sample[2] is not None]
    found = refine([call for call, _, _ in good], library)
    for said, (call, dynamic, actual) in zip(found, good, strict=True):
        assert all(agrees(s, a) for s, a in zip(said, actual, strict=True)), (
            f"{said} is not {actual}\n{call.text}"
        )
        assert dynamic or said == actual, f"{said} is not all of {actual}\n{call.text}"
    assert sum(not dynamic for _, dynamic, _ in good) >= 5
    assert any(dynamic and None not in said for said, (_, dynamic, _) in zip(found, good, strict=True))


@pytest.mark.parametrize("operator", RAISING)
def test_what_raises_in_python_raises(operator, library):
    bad = [call for call, dynamic, actual in samples(operator) if actual is None and not dynamic]
    assert bad
    with pytest.raises((ShapeCheckError, LibraryFunctionError)) as raised:
        refine(bad, library)
    assert len(raised.value.findings) == len(bad), raised.value


HEADER = "from pipeline.shape_lib.registry import shape_function\n\n\n"


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_random_functions(seed, tmp_path):
    """Ten functions that nobody would write, in one library."""
    rng = random.Random(seed)
    names = [f"random{seed + i}" for i in range(10)]
    file = tmp_path / f"functions{seed}.py"
    functions = [f'@shape_function("mylib::{name}")\n{WRITER(rng).function(name)}' for name in names]
    file.write_text(HEADER + "\n\n".join(functions))
    module, library = load(file), import_file(file)
    drawn = [sample for name in names for sample in samples(name, getattr(module, name), 20)]
    good, found = compare(drawn, library)
    assert len(good) > 40
    assert any(dynamic and None not in said for said, (_, dynamic, _) in zip(found, good, strict=True))
