# ruff: noqa: E501 (lines of IR are long)
"""Refinement of modules whose operators come without result types: none is left unrefined, given the functions."""

import pytest
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from pipeline.shape_lib.abstract.values import Unknown
from pipeline.shape_lib.errors import LibraryFunctionError, LibraryTextError, ShapeCheckError
from pipeline.shape_lib.importer import import_file
from pipeline.shape_lib.refine import refine_shapes
from pipeline.shape_lib.refinement import library as library_module
from pipeline.shape_lib.tensor_types import TensorInfo
from pipeline.shape_lib.verifier import verify_refined

HEADER = """
from typing import Any
from pipeline.shape_lib import dtypes
from pipeline.shape_lib.dtypes import promote_dtypes
from pipeline.shape_lib.registry import dtype_function, shape_function
"""


@pytest.fixture
def library(tmp_path):
    """The text of a library from source."""

    def build(source):
        file = tmp_path / "functions.py"
        file.write_text(HEADER + source)
        return import_file(file)

    return build


def parse(text):
    context = ir.Context()
    torch_dialect.register_dialect(context)
    return ir.Module.parse(text, context)


def types(module):
    """The types of all tensors in the first function, in order, as in `TYPES`."""
    found = []
    for op in module.body.operations[0].regions[0].blocks[0].operations:
        found += [str(result.type) for result in op.results if "tensor" in str(result.type).split("<")[0]]
    return [type_.removeprefix("!torch.vtensor") for type_ in found]


LIBRARY = """
@shape_function("mylib::joined")
def joined_shape(tensors: list[list[int]], dim: int) -> list[int]:
    total = 0
    for sizes in tensors:
        total += sizes[dim]
    out = tensors[0][:]
    out[dim] = total
    return out


@dtype_function("mylib::joined")
def joined_dtype(tensors: list[tuple[int, int]], dim: int) -> int:
    ranks: list[int | None] = []
    kinds: list[int] = []
    for tensor in tensors:
        rank, dtype = tensor
        ranks.append(rank)
        kinds.append(dtype)
    return promote_dtypes(ranks, kinds)


@shape_function("mylib::biased")
def biased_shape(x: list[int], bias: list[int] | None, repeats: list[int]) -> list[int]:
    out: list[int] = []
    for i, size in enumerate(x):
        out.append(size * repeats[i])
    if bias is not None:
        assert len(bias) == 1, "the bias must be a vector"
        out.append(bias[0])
    return out


@dtype_function("mylib::biased")
def biased_dtype(x: tuple[int, int], bias: tuple[int, int] | None, repeats: list[int]) -> int:
    rank, dtype = x
    if bias is not None:
        bias_rank, bias_dtype = bias
        return promote_dtypes([rank, bias_rank], [dtype, bias_dtype])
    return dtype


@shape_function("mylib::values_and_indices")
def values_shape(x: list[int], k: int) -> tuple[list[int], list[int]]:
    out = x[:-1] + [k]
    return out, out


@dtype_function("mylib::values_and_indices")
def values_dtype(x: tuple[int, int], k: int) -> tuple[int, int]:
    rank, dtype = x
    return dtype, dtypes.int64


@shape_function("mylib::pieces")
def pieces_shape(x: list[int], count: int) -> list[list[int]]:
    out: list[list[int]] = []
    for i in range(count):
        out.append([x[0] // count] + x[1:])
    return out


@dtype_function("mylib::pieces")
def pieces_dtype(x: tuple[int, int], count: int) -> list[int]:
    rank, dtype = x
    out: list[int] = []
    for i in range(count):
        out.append(dtype)
    return out
"""

PROGRAM = """
func.func @main(%x: !torch.vtensor<[?,4],f16>, %y: !torch.vtensor<[?,4],f32>, %b: !torch.vtensor<[5],f64>)
    -> (TENSOR, TENSOR, TENSOR) {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %none = torch.constant.none
  %list = torch.prim.ListConstruct %x, %y : (!torch.vtensor<[?,4],f16>, !torch.vtensor<[?,4],f32>) -> !torch.list<vtensor>
  %joined = torch.operator "torch.mylib.joined"(%list, %one) : (!torch.list<vtensor>, !torch.int) -> TENSOR
  %relu = torch.aten.relu %joined : TENSOR -> TENSOR
  %repeats = torch.prim.ListConstruct %two, %one : (!torch.int, !torch.int) -> !torch.list<int>
  %plain = torch.operator "torch.mylib.biased"(%relu, %none, %repeats) : (TENSOR, !torch.none, !torch.list<int>) -> TENSOR
  %with = torch.operator "torch.mylib.biased"(%relu, %b, %repeats) : (TENSOR, !torch.vtensor<[5],f64>, !torch.list<int>) -> TENSOR
  %sum = torch.aten.add.Tensor %plain, %joined, %one : TENSOR, TENSOR, !torch.int -> TENSOR
  %top:2 = torch.operator "torch.mylib.values_and_indices"(%with, %two) : (TENSOR, !torch.int) -> (TENSOR, TENSOR)
  %size = torch.aten.size.int %with, %one : TENSOR, !torch.int -> !torch.int
  %shape = torch.prim.ListConstruct %size, %zero : (!torch.int, !torch.int) -> !torch.list<int>
  %full = torch.aten.zeros %shape, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> TENSOR
  return %sum, %top#1, %full : TENSOR, TENSOR, TENSOR
}
"""
EXPECTED = ["<[?,8],f32>", "<[?,8],f32>", "<[?,8],f32>", "<[?,8,5],f64>", "<[?,8],f32>"]
EXPECTED += ["<[?,8,2],f64>", "<[?,8,2],si64>", "<[8,0],f32>"]


@pytest.mark.parametrize("tensor", ["!torch.vtensor", "!torch.vtensor<*,unk>"])
def test_none_is_left_unrefined(tensor, library):
    module = parse(PROGRAM.replace("TENSOR", tensor))
    refine_shapes(module, [library(LIBRARY)])
    verify_refined(module)
    assert types(module) == EXPECTED
    assert "-> (!torch.vtensor<[?,8],f32>, !torch.vtensor<[?,8,2],si64>, !torch.vtensor<[8,0],f32>)" in str(
        module
    )


def test_tensors_that_may_be_changed_become_values(library):
    """The importer of in-place programs gives ``!torch.tensor``; a library function says that nothing is changed."""
    module = parse(PROGRAM.replace("TENSOR", "!torch.tensor"))
    refine_shapes(module, [library(LIBRARY)])
    verify_refined(module)
    assert types(module) == EXPECTED


def test_lists_of_tensors(library):
    module = parse("""
    func.func @main(%x: !torch.vtensor<[?,4],f16>) {
      %two = torch.constant.int 2
      %one = torch.constant.int 1
      %list = torch.operator "torch.mylib.pieces"(%x, %two) : (!torch.vtensor<[?,4],f16>, !torch.int) -> !torch.list<vtensor>
      %0:2 = torch.prim.ListUnpack %list : !torch.list<vtensor> -> !torch.vtensor, !torch.vtensor
      %1 = torch.aten.__getitem__.t %list, %one : !torch.list<vtensor>, !torch.int -> !torch.vtensor
      %2 = torch.operator "torch.mylib.joined"(%list, %one) : (!torch.list<vtensor>, !torch.int) -> !torch.vtensor
      return
    }""")
    refine_shapes(module, [library(LIBRARY)])
    assert types(module) == ["<[?,4],f16>"] * 3 + ["<[?,8],f16>"]


def test_what_the_types_say_is_kept_and_added_to(library):
    module = parse("""
    func.func @main(%x: !torch.vtensor<[?,4],f16>) {
      %r = torch.aten.relu %x : !torch.vtensor<[?,4],f16> -> !torch.vtensor<[7,?],unk>
      %s = torch.aten.tanh %r : !torch.vtensor<[7,?],unk> -> !torch.vtensor
      return
    }""")
    refine_shapes(module)
    assert types(module) == ["<[7,4],f16>", "<[7,4],f16>"]


def test_types_that_are_known_cost_nothing(monkeypatch):
    def fail(*args):
        raise AssertionError("torch-mlir's library was loaded")

    monkeypatch.setattr(library_module, "stock_functions", fail)
    text = "func.func @main(%x: !torch.vtensor<[4],f32>) { %r = torch.aten.relu %x : !torch.vtensor<[4],f32> -> TYPE return }"
    refine_shapes(parse(text.replace("TYPE", "!torch.vtensor<[4],f32>")))
    with pytest.raises(AssertionError, match="was loaded"):
        refine_shapes(parse(text.replace("TYPE", "!torch.vtensor")))


def test_numbers_become_tensors():
    """torch-mlir's library uses the same operations on numbers, with another meaning."""
    module = parse("""
    func.func @main(%x: !torch.vtensor<[2],f32>, %n: !torch.int) {
      %half = torch.constant.float 5.000000e-01
      %0 = torch.prim.NumToTensor.Scalar %half : !torch.float -> !torch.vtensor
      %1 = torch.prim.NumToTensor.Scalar %n : !torch.int -> !torch.vtensor
      %2 = torch.aten.mul.Tensor %x, %0 : !torch.vtensor<[2],f32>, !torch.vtensor -> !torch.vtensor
      return
    }""")
    refine_shapes(module)
    assert types(module) == ["<[],f64>", "<[],si64>", "<[2],f32>"]


def test_the_same_operator_with_other_operands(library):
    module = parse("""
    func.func @main(%x: !torch.vtensor<[2,3],f32>, %y: !torch.vtensor<[?],f64>) {
      %k = torch.constant.int 2
      %0:2 = torch.operator "torch.mylib.values_and_indices"(%x, %k) : (!torch.vtensor<[2,3],f32>, !torch.int) -> (!torch.vtensor, !torch.vtensor)
      %1:2 = torch.operator "torch.mylib.values_and_indices"(%y, %k) : (!torch.vtensor<[?],f64>, !torch.int) -> (!torch.vtensor, !torch.vtensor)
      return
    }""")
    refine_shapes(module, [library(LIBRARY)])
    assert types(module) == ["<[2,2],f32>", "<[2,2],si64>", "<[2],f64>", "<[2],si64>"]


def test_the_first_library_wins(library):
    def says(size):
        return library(f"""
@shape_function("aten::relu")
def relu(x: list[int]) -> list[int]:
    return [{size}]
""")

    text = "func.func @main(%x: !torch.vtensor<[4],f32>) { %r = torch.aten.relu %x : !torch.vtensor<[4],f32> -> !torch.vtensor return }"
    for libraries, expected in [
        ([], "<[4],f32>"),
        ([says(1)], "<[1],f32>"),
        ([says(2), says(1)], "<[2],f32>"),
    ]:
        module = parse(text)
        refine_shapes(module, libraries)
        assert types(module) == [expected]


def test_branches_and_loops_of_the_program(library):
    """What a branch or a loop changes is unknown before and after it; the types of its results stay as they are."""
    module = parse(
        """
    func.func @main(%x: !torch.vtensor<[2,3],f32>, %c: !torch.bool, %n: !torch.int) -> !torch.vtensor {
      %true = torch.constant.bool true
      %two = torch.constant.int 2
      %list = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
      torch.prim.Loop %n, %true, init() {
      ^bb0(%i: !torch.int):
        %before = torch.aten.zeros %list, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor
        %0 = torch.aten.append.t %list, %two : !torch.list<int>, !torch.int -> !torch.list<int>
        torch.prim.Loop.condition %true, iter()
      } : (!torch.int, !torch.bool) -> ()
      %after = torch.aten.zeros %list, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor
      %r = torch.prim.If %c -> (!torch.vtensor) {
        %y = torch.aten.relu %x : !torch.vtensor<[2,3],f32> -> !torch.vtensor
        torch.prim.If.yield %y : !torch.vtensor
      } else {
        torch.prim.If.yield %after : !torch.vtensor
      }
      %z = torch.aten.tanh %r : !torch.vtensor -> !torch.vtensor
      return %z : !torch.vtensor
    }""".replace("%true = ", "%none = torch.constant.none\n %true = ")
    )
    refine_shapes(module)
    text = str(module)
    assert text.count("torch.aten.zeros") == text.count("!torch.vtensor<*,f32>\n") == 2
    assert "torch.aten.relu %arg0 : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>" in text
    assert "torch.aten.tanh %3 : !torch.vtensor -> !torch.vtensor\n" in text


def evaluate(name, operands):
    tensor, sizes, flag, unknown = operands
    assert name == "other.op"
    assert tensor == TensorInfo((None, 3), "float16")
    assert (sizes, flag, unknown) == ([2, 5], None, Unknown.INT)
    return [([*sizes, None], "float32"), ((), "bool")]


def test_what_no_library_knows_is_asked_for():
    module = parse("""
    func.func @main(%x: !torch.vtensor<[?,3],f16>, %n: !torch.int) {
      %two = torch.constant.int 2
      %five = torch.constant.int 5
      %none = torch.constant.none
      %list = torch.prim.ListConstruct %two, %five : (!torch.int, !torch.int) -> !torch.list<int>
      %0:2 = torch.operator "torch.other.op"(%x, %list, %none, %n) : (!torch.vtensor<[?,3],f16>, !torch.list<int>, !torch.none, !torch.int) -> (!torch.vtensor, !torch.vtensor)
      %1 = torch.aten.relu %0#0 : !torch.vtensor -> !torch.vtensor
      return
    }""")
    refine_shapes(module, evaluate=evaluate)
    assert types(module) == ["<[2,5,?],f32>", "<[],i1>", "<[2,5,?],f32>"]


ONE_CALL = """
func.func @main(%x: !torch.vtensor<[2,3],f32>) {
  %one = torch.constant.int 1
  %none = torch.constant.none
  %0 = torch.operator "torch.mylib.f"(ARGUMENTS) : (TYPES) -> RESULT loc("model.py":7:0)
  return
}"""


def call(arguments="%x", types="!torch.vtensor<[2,3],f32>", result="!torch.vtensor"):
    return parse(ONE_CALL.replace("ARGUMENTS", arguments).replace("TYPES", types).replace("RESULT", result))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "def f(x: list[int], y: list[int]) -> list[int]:\n    return x",
            "takes 2 arguments and the operator has 1",
        ),
        ("def f(x: int) -> list[int]:\n    return [x]", "takes 'int' as argument 1, which is a tensor here"),
        (
            "def f(x: list[int]) -> tuple[list[int], list[int]]:\n    return x, x",
            "gives .*, which is no list of sizes",
        ),
        ("def f(x: list[int]) -> list[int]:\n    return [x[0] - 5]", "gives -3 as a size"),
    ],
)
def test_functions_that_do_not_fit(source, message, library):
    text = library(f'@shape_function("mylib::f")\n{source}\n')
    with pytest.raises(
        LibraryFunctionError, match=rf"mylib.f: the shape function of mylib.f {message} \(at model.py:7\)"
    ):
        refine_shapes(call(), [text])


ENDLESS = """
func.func @__torch_mlir_shape_fn.torch.mylib.f(%x: !torch.list<int>) -> !torch.list<int> {
  %true = torch.constant.bool true
  %many = torch.constant.int 9223372036854775807
  torch.prim.Loop %many, %true, init() {
  ^bb0(%i: !torch.int):
    torch.prim.Loop.condition %true, iter()
  } : (!torch.int, !torch.bool) -> ()
  return %x : !torch.list<int>
}"""

RECURSIVE = """
func.func @__torch_mlir_shape_fn.torch.mylib.f(%x: !torch.list<int>) -> !torch.list<int> {
  %0 = call @__torch_mlir_shape_fn.torch.mylib.f(%x) : (!torch.list<int>) -> !torch.list<int>
  return %0 : !torch.list<int>
}"""


@pytest.mark.parametrize("text", [ENDLESS, RECURSIVE])
def test_a_function_that_does_not_end(text):
    with pytest.raises(LibraryFunctionError, match=r"the shape function of mylib\.f does not end"):
        refine_shapes(call(), [text])


def test_a_dtype_that_is_none(library):
    text = library('@dtype_function("mylib::f")\ndef f(x: tuple[int, int]) -> int:\n    return 99\n')
    with pytest.raises(
        LibraryFunctionError, match=r"the dtype function of mylib\.f gives 99, which is no dtype"
    ):
        refine_shapes(call(), [text])


def test_an_argument_of_another_kind(library):
    text = library('@shape_function("mylib::f")\ndef f(x: list[int], n: int) -> list[int]:\n    return [n]\n')
    module = call("%x, %none", "!torch.vtensor<[2,3],f32>, !torch.none")
    with pytest.raises(LibraryFunctionError, match="takes 'int' as argument 2, which is None here"):
        refine_shapes(module, [text])


def test_a_function_that_contradicts_the_program(library):
    text = library(
        '@shape_function("mylib::f")\ndef f(x: list[int]) -> list[int]:\n    return [x[1], x[0]]\n'
    )
    with pytest.raises(LibraryFunctionError) as raised:
        refine_shapes(call(result="!torch.vtensor<[2,3],unk>"), [text])
    assert str(raised.value.findings[0]) == (
        "mylib.f: its functions say that result 0 is ([3,2], unknown dtype), the program says ([2,3], unknown dtype)"
        " (at model.py:7)"
    )


def test_a_text_that_is_no_library():
    with pytest.raises(LibraryTextError, match="no valid Torch dialect"):
        refine_shapes(call(), ["func.func @f( {"])


CHECKED = """
def check(size: int, least: int) -> None:
    if size < least:
        raise ValueError(f"{size} is less than {least}")


@shape_function("mylib::f")
def f(x: list[int]) -> list[int]:
    for size in x:
        check(size, 3)
    return x


@shape_function("mylib::g")
def g(x: list[int], y: list[int]) -> list[int]:
    assert len(x) == len(y), "the ranks of x and y differ"
    return x
"""


def test_a_check_that_must_fail_is_quoted(library):
    """Also in a helper; both that fail are listed, with their lines, and with those of the checks."""
    module = parse("""
    func.func @main(%x: !torch.vtensor<[5,2],f32>, %y: !torch.vtensor<[3],f32>, %z: !torch.vtensor<[3,?],f32>) {
      %0 = torch.operator "torch.mylib.f"(%x) : (!torch.vtensor<[5,2],f32>) -> !torch.vtensor loc("model.py":7:0)
      %1 = torch.operator "torch.mylib.f"(%z) : (!torch.vtensor<[3,?],f32>) -> !torch.vtensor loc("model.py":8:0)
      %2 = torch.operator "torch.mylib.g"(%x, %y) : (!torch.vtensor<[5,2],f32>, !torch.vtensor<[3],f32>) -> !torch.vtensor loc(callsite("inner.py":3:0 at "model.py":9:0))
      %3 = torch.operator "torch.mylib.g"(%1, %x) : (!torch.vtensor, !torch.vtensor<[5,2],f32>) -> !torch.vtensor loc("model.py":10:0)
      return
    }""")
    with pytest.raises(ShapeCheckError) as raised:
        refine_shapes(module, [library(CHECKED)])
    first, second = raised.value.findings
    assert (first.operator, first.frames) == ("mylib.f", (("model.py", 7),))
    assert first.problem.startswith("ValueError: 2 is less than 3 (") and first.problem.endswith(
        "functions.py:9)"
    )
    assert (second.operator, second.frames) == ("mylib.g", (("inner.py", 3), ("model.py", 9)))
    assert second.problem.startswith("the ranks of x and y differ (")


def test_torch_mlirs_own_checks_are_quoted():
    module = parse("""
    func.func @main(%x: !torch.vtensor<[2,3],f32>, %y: !torch.vtensor<[4,5],f32>) {
      %0 = torch.aten.mm %x, %y : !torch.vtensor<[2,3],f32>, !torch.vtensor<[4,5],f32> -> !torch.vtensor loc("model.py":3:0)
      %one = torch.constant.int 1
      %1 = torch.aten.add.Tensor %x, %y, %one : !torch.vtensor<[2,3],f32>, !torch.vtensor<[4,5],f32>, !torch.int -> !torch.vtensor
      return
    }""")
    with pytest.raises(ShapeCheckError, match="Matrix dimensions don't match for mm") as raised:
        refine_shapes(module)
    assert "The size of tensor a 2 must match the size of tensor b (4)" in str(raised.value)
