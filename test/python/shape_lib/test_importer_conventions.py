"""torch-mlir's own way of writing library functions: a user can paste theirs, and nothing is executed for it."""

# ruff: noqa: RUF001, E501 - torch-mlir names functions with these characters and writes long lines

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.importer import ShapeLibraryError, import_file
from pipeline.shape_lib.importer.names import Target, symbol, target_of_name
from pipeline.shape_lib.registry import operator_of

PASTED = """
from typing import List, Optional, Any, Tuple, Union

import torch
from torch import device
import torch.jit._shape_functions as upstream_shape_functions

from .testing_framework import Invocation, TensorOfShape, check_shape_function, check_dtype_function
from .library_generator import (
    promote_dtypes, get_dtype_of_scalar, is_integer_dtype, is_float_dtype, all_integer_dtypes, not_present_in_registry
)

def _kept(self: List[int], dim: int):
    dim = upstream_shape_functions.maybe_wrap_dim(dim, len(self))
    return self[:dim] + self[dim + 1:], dim

@check_shape_function([
    Invocation(TensorOfShape(2, 3), dim=1), # Basic case.
    Invocation(lambda: undefined()),
])
def aten〇relu〡shape(self: List[int]) -> List[int]:
    return upstream_shape_functions.unary(self)

def aten〇add〇Tensor〡shape(self: List[int], other: List[int], alpha: float = 1) -> List[int]:
    return upstream_shape_functions.broadcast(self, other)

@check_dtype_function(
    [Invocation(NonZeroDTensorWithDtype(dtype)) for dtype in [torch.float32, torch.complex64]])
def aten〇add〇Tensor〡dtype(
    self_rank_dtype: Tuple[int, int], other_rank_dtype: Tuple[int, int], alpha: Union[int, float, complex] = 1
) -> int:
    self_rank, self_dtype = self_rank_dtype
    other_rank, other_dtype = other_rank_dtype
    ranks: List[Optional[int]] = [self_rank, other_rank]
    dtypes = [self_dtype, other_dtype]
    return promote_dtypes(ranks, dtypes)

def aten〇add〇Scalar〡dtype(
    self_rank_dtype: Tuple[int, int], other: Union[int, float, complex], alpha: Union[int, float, complex] = 1
) -> int:
    self_rank, self_dtype = self_rank_dtype
    ranks: List[Optional[int]] = [self_rank, None]
    return promote_dtypes(ranks, [self_dtype, get_dtype_of_scalar(other)])

def torch〇mylib〇pooled〡shape(self: List[int], kernel_size: List[int] = (2, 2,), dim: Optional[int] = None) -> List[int]:
    if dim is None:
        return self
    rest, at = _kept(self, dim)
    rest.insert(at, self[dim] // kernel_size[0])
    return rest

@check_dtype_function(_check_tensors_with_the_same_dtype(num_of_tensors=1))
def mylib〇pooled〡dtype(
    self_rank_dtype: Tuple[int, int], kernel_size: List[int] = (2, 2,), dim: Optional[int] = None
) -> int:
    _, self_dtype = self_rank_dtype
    assert self_dtype not in (torch.complex64, torch.complex128), "no complex numbers"
    if is_integer_dtype(self_dtype):
        return torch.float32
    return self_dtype

def torch〇mylib〇split〡shape(tensors: List[List[int]], weight: Optional[List[int]], mode: str) -> Tuple[List[int], List[int]]:
    first = upstream_shape_functions._copy(tensors[0])
    for tensor in tensors:
        assert len(tensor) == len(first)
    return first, first if weight is None else weight

def torch〇mylib〇split〡dtype(tensors: List[Tuple[int, int]], weight: Optional[Tuple[int, int]], mode: str) -> Tuple[int, int]:
    ranks: List[Optional[int]] = []
    dtypes: List[int] = []
    for tensor_rank_dtype in tensors:
        rank, dtype = tensor_rank_dtype
        ranks.append(rank)
        dtypes.append(dtype)
    if weight is not None:
        ranks.append(weight[0])
        dtypes.append(weight[1])
    return promote_dtypes(ranks, dtypes), torch.int64

@not_present_in_registry
def aten〇bernoulli〇float〡dtype(self_rank_dtype: Tuple[int, int], p: float = 0.5, generator: Any = None) -> int:
    self_rank, self_dtype = self_rank_dtype
    assert is_float_dtype(self_dtype) or self_dtype in all_integer_dtypes()
    return self_dtype

def torch〇mylib〇made〡shape(size: List[int], dtype: Optional[int] = None, device: Optional[device] = None) -> List[int]:
    return size

def torch〇mylib〇found〡shape(self: List[int]) -> List[int]:
    return [hacky_get_unknown_dimension_size(), len(self)]

class DummyClassType:
    def __init__(self):
        pass

def hacky_get_unknown_dimension_size():
    return id(DummyClassType())

def torch〇mylib〇found〡has_value_semantics() -> None:
    return

raise SystemExit("the file was executed")
"""


@pytest.fixture(scope="module")
def library(imported: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("pasted") / "abstract_interp.py"
    path.write_text(PASTED)
    return imported([], text=import_file(path))


SHAPE, DTYPE = "__torch_mlir_shape_fn.", "__torch_mlir_dtype_fn."

CALLS: list[tuple[str, list[Any], Any]] = [
    (f"{SHAPE}aten.relu", [[2, 3]], [2, 3]),
    (f"{SHAPE}aten.add.Tensor", [[2, 1], [3], 1.0], [2, 3]),
    (f"{DTYPE}aten.add.Tensor", [(2, dtypes.int8), (0, dtypes.float64), 1], dtypes.float64),
    (f"{DTYPE}aten.add.Tensor", [(2, dtypes.float16), (0, dtypes.float64), 1], dtypes.float16),
    (f"{SHAPE}torch.mylib.pooled", [[4, 6], [2, 2], None], [4, 6]),
    (f"{SHAPE}torch.mylib.pooled", [[4, 6], [2, 2], -1], [4, 3]),
    (f"{DTYPE}torch.mylib.pooled", [(2, dtypes.int8), [2, 2], None], dtypes.float32),
    (f"{DTYPE}torch.mylib.pooled", [(2, dtypes.bfloat16), [2, 2], None], dtypes.bfloat16),
    (
        f"{DTYPE}torch.mylib.pooled",
        [(2, dtypes.complex64), [2, 2], None],
        "AssertionError: no complex numbers",
    ),
    (f"{SHAPE}torch.mylib.split", [[[1, 2], [3, 4]], None, "x"], ([1, 2], [1, 2])),
    (f"{SHAPE}torch.mylib.split", [[[1, 2]], [5], "x"], ([1, 2], [5])),
    (f"{DTYPE}torch.mylib.split", [[(1, dtypes.int8)], (2, dtypes.uint8), "x"], (dtypes.int16, dtypes.int64)),
    (f"{DTYPE}aten.bernoulli.float", [(1, dtypes.float32), 0.5, None], dtypes.float32),
    (f"{SHAPE}torch.mylib.made", [[3], None, None], [3]),
]


@pytest.mark.parametrize(("symbol_", "arguments", "wanted"), CALLS)
def test_pasted_functions(library: Any, symbol_: str, arguments: list[Any], wanted: Any) -> None:
    assert library.run_symbol(symbol_, arguments) == wanted


MINE = """
from pipeline.shape_lib.dtypes import get_priority_of_dtype
from pipeline.shape_lib.registry import dtype_function, shape_function
from pipeline.shape_lib.sizes import unknown_size

@shape_function("test::found", "test::found_too")
def found(x: list[int], first: bool) -> list[int]:
    n = unknown_size()
    return [n if first else 3, len(x), 4]

@dtype_function("test::found")
def found_dtype(x: tuple[int, int], first: bool) -> int:
    return get_priority_of_dtype(x[1])
"""


def test_sizes_that_only_the_data_tells(imported: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    library = imported([], text=import_file(path))

    def operator() -> None: ...

    for name in ("found", "found_too"):
        operator.__name__ = name
        sizes = library.simplify([(operator, [([5, 6], True), ([5], False)])])
        assert sizes == {(name, 0): [-1, 2, 4], (name, 1): [3, 1, 4]}
    symbol_ = f"{DTYPE}torch.test.found"
    assert library.run_symbol(symbol_, [(1, dtypes.complex128), True]) == 11
    assert (
        library.run_symbol(symbol_, [(1, dtypes.uint64), True]) == "ValueError: the value is not in the list"
    )


def test_every_operator_has_value_semantics(library: Any) -> None:
    said = {
        name.partition("fn.")[2] for name in library.functions if "_shape_fn" in name or "_dtype_fn" in name
    }
    assert {f"__torch_mlir_has_value_semantics_fn.{name}" for name in said} <= set(library.functions)
    assert len(said) == 8


def test_torch_mlir_resolves_dtypes(library: Any) -> None:
    """Promotion and the dtype of a number, through torch-mlir's own passes."""
    found = library.simplify_dtypes(
        """
        func.func @"promoted"(%a: !torch.vtensor<[2],si32>, %b: !torch.vtensor<[],f64>) -> !torch.vtensor {
          %one = torch.constant.int 1
          %r = torch.aten.add.Tensor %a, %b, %one : !torch.vtensor<[2],si32>, !torch.vtensor<[],f64>, !torch.int -> !torch.vtensor
          return %r : !torch.vtensor
        }
        func.func @"number"(%a: !torch.vtensor<[2],si8>) -> !torch.vtensor {
          %one = torch.constant.int 1
          %half = torch.constant.float 5.000000e-01
          %r = torch.aten.add.Scalar %a, %half, %one : !torch.vtensor<[2],si8>, !torch.float, !torch.int -> !torch.vtensor
          return %r : !torch.vtensor
        }
        func.func @"own"(%a: !torch.vtensor<[2],si8>, %b: !torch.vtensor<[2],ui8>) -> !torch.vtensor {
          %none = torch.constant.none
          %mode = torch.constant.str "x"
          %list = torch.prim.ListConstruct %a, %b : (!torch.vtensor<[2],si8>, !torch.vtensor<[2],ui8>) -> !torch.list<vtensor>
          %r:2 = torch.operator "torch.mylib.split"(%list, %none, %mode) : (!torch.list<vtensor>, !torch.none, !torch.str) -> (!torch.vtensor, !torch.vtensor)
          return %r#0 : !torch.vtensor
        }
        """
    )
    assert found == {"promoted": ["f64"], "number": ["f32"], "own": ["si16", "si64"]}


IMPORT = """
import json, sys
from pipeline.shape_lib.importer import import_file
text = import_file(sys.argv[1])
print(json.dumps([len(text), sorted(name for name in sys.modules if name.split('.')[0] == 'torch')]))
"""


def test_imports_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PASTED)
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    length, loaded = json.loads(done.stdout)
    assert length > 1000
    assert loaded == []


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("aten::relu", "aten.relu"),
        ("aten.relu.default", "aten.relu"),
        ("torch.aten.add.Tensor", "aten.add.Tensor"),
        ("mylib::swiglu", "mylib.swiglu"),
        ("mylib::swiglu.out", "mylib.swiglu.out"),
    ],
)
def test_operator_names(name: str, operator: str) -> None:
    assert operator_of(name) == operator


@pytest.mark.parametrize("name", ["relu", "", "aten.", "my lib::x", "default"])
def test_wrong_operator_names(name: str) -> None:
    with pytest.raises(ValueError, match="is not an operator's name"):
        operator_of(name)


def test_symbols() -> None:
    """Operators of the dialect by their name in it, others as `torch.operator` names them."""
    assert symbol(Target("aten.relu", "shape")) == "__torch_mlir_shape_fn.aten.relu"
    assert (
        symbol(Target("aten.nobody_has_this", "dtype")) == "__torch_mlir_dtype_fn.torch.aten.nobody_has_this"
    )
    assert target_of_name("torch〇aten〇add〇Tensor〡dtype") == Target("aten.add.Tensor", "dtype")
    assert target_of_name("helper") is None


def test_a_function_that_is_no_kind_of_library_function(tmp_path: Path) -> None:
    path = tmp_path / "lib.py"
    path.write_text("def aten〇relu〡decomposition(x: list[int]) -> list[int]:\n    return x\n")
    with pytest.raises(ShapeLibraryError, match=r"lib.py:1: .*decomposition functions are not supported"):
        import_file(path)
