"""The nesting of arguments and results: every kind of node there and back, and errors that name the place."""

import collections
import dataclasses
import math
import sys
import types

import pytest
import torch
from torch.utils import _pytree

from pipeline.runtime import ArgumentError, structure

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Output:
    """A model output of the usual kind."""

    logits: object
    loss: object = None


class Cache:
    """A class that only torch's pytree registry can take apart, as Transformers' caches are."""

    def __init__(self, items: list, version: int) -> None:
        self.items = items
        self.version = version


@pytest.fixture(scope="module", autouse=True)
def module_of_classes():
    """The classes above under a module name that can be imported, and Cache in torch's registry."""
    module = types.ModuleType("classes_for_structure_tests")
    for cls in (Pair, Output, Cache):
        setattr(module, cls.__name__, cls)
    sys.modules[module.__name__] = module
    _pytree.register_pytree_node(
        Cache,
        lambda c: (c.items, {"version": c.version}),
        lambda items, context: Cache(items, context["version"]),
    )
    yield
    del sys.modules[module.__name__]
    _pytree._deregister_pytree_node(Cache)
    structure._find_class.cache_clear()


def class_node(name: str, how: str, *fields: tuple[str, dict], context: object = None) -> dict:
    return {
        "class": f"classes_for_structure_tests:{name}",
        "how": how,
        "fields": [list(field) for field in fields],
        "context": context,
    }


def leaf(number: int) -> dict:
    return {"leaf": number}


PAIR = class_node("Pair", "namedtuple", ("left", leaf(0)), ("right", leaf(1)))
OUTPUT = class_node("Output", "dataclass", ("logits", leaf(0)), ("loss", {"const": None}))
CACHE = class_node("Cache", "pytree", ("0", leaf(0)), ("1", leaf(1)), context={"version": 3})
UNKNOWN = {**PAIR, "class": "no_such_module:Pair"}

ROUND_TRIPS = [
    (leaf(0), "a", ["a"]),
    ({"tuple": [leaf(0), leaf(1)]}, ("a", "b"), ["a", "b"]),
    ({"list": [leaf(0), {"list": []}]}, ["a", []], ["a"]),
    ({"dict": [["k", leaf(0)], [3, {"tuple": [leaf(1)]}]]}, {"k": "a", 3: ("b",)}, ["a", "b"]),
    ({"tuple": [{"const": 7}, leaf(0), {"const": None}, {"const": True}]}, (7, "a", None, True), ["a"]),
    (PAIR, Pair("a", "b"), ["a", "b"]),
    (OUTPUT, Output("a"), ["a"]),
    (UNKNOWN, {"left": "a", "right": "b"}, ["a", "b"]),
]


@pytest.mark.parametrize(("node", "value", "flat"), ROUND_TRIPS)
def test_there_and_back(node: dict, value: object, flat: list) -> None:
    assert structure.flatten(node, value, "x") == flat
    back = structure.unflatten(node, flat)
    assert back == value
    assert type(back) is type(value)


def test_registered_class() -> None:
    assert structure.flatten(CACHE, Cache(["a", "b"], 3), "cache") == ["a", "b"]
    back = structure.unflatten(CACHE, ["a", "b"])
    assert isinstance(back, Cache)
    assert (back.items, back.version) == (["a", "b"], 3)


@pytest.mark.parametrize("name", ["no_such_module:Cache", "classes_for_structure_tests:Other"])
def test_a_class_that_is_not_there_is_a_dict(name: str) -> None:
    node = {**CACHE, "class": name}
    assert not structure.importable(name)
    assert structure.unflatten(node, ["a", "b"]) == {"0": "a", "1": "b"}
    assert structure.flatten(node, {"0": "a", "1": "b"}, "cache") == ["a", "b"]
    with pytest.raises(
        ArgumentError, match=f"'cache' must be a {name} or a dict with the keys .'0', '1'., got list"
    ):
        structure.flatten(node, ["a", "b"], "cache")


def test_a_class_whose_module_breaks_at_import_is_a_dict(tmp_path, monkeypatch) -> None:
    (tmp_path / "broken_at_import.py").write_text("raise RuntimeError('no GPU')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert structure.unflatten({**PAIR, "class": "broken_at_import:Pair"}, [1, 2]) == {"left": 1, "right": 2}


def test_dataclass_can_be_passed_as_a_dict_or_anything_with_its_attributes() -> None:
    like = types.SimpleNamespace(logits="a", loss=None, more=1)
    for value in (Output("a"), {"logits": "a", "loss": None}, like):
        assert structure.flatten(OUTPUT, value, "x") == ["a"]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1.5, -0.0, 0, True, "text", None])
def test_constants_survive_json(value: object) -> None:
    encoded = structure.encode_constant(value)
    back = structure.unflatten({"const": encoded}, [])
    assert repr(back) == repr(value)
    assert structure.flatten({"const": encoded}, value, "x") == []


def test_torch_constants_are_compared_as_text() -> None:
    assert structure.flatten({"const": "torch.float32"}, torch.float32, "dtype") == []
    assert structure.flatten({"const": "cpu"}, torch.device("cpu"), "device") == []
    with pytest.raises(ArgumentError, match=r"the constant 'torch\.float32', got 'torch\.int8'"):
        structure.flatten({"const": "torch.float32"}, torch.int8, "dtype")


NESTED = {"dict": [["k", {"list": [leaf(0), PAIR, {"const": 2}]}]]}


@pytest.mark.parametrize(
    ("node", "value", "message"),
    [
        (NESTED, 3, "argument 'x' must be a dict, got 3"),
        (NESTED, {}, r"argument 'x' must have the keys \['k'\]; missing \['k'\]"),
        (NESTED, {"k": [], "l": 1}, r"argument 'x' must have the keys \['k'\]; unknown \['l'\]"),
        (NESTED, {"k": "text"}, r"argument 'x\['k'\]' must be a list of 3, got 'text'"),
        (NESTED, {"k": ["a"]}, r"argument 'x\['k'\]' must have 3 items, got 1"),
        (NESTED, {"k": ["a", ("b",), 2]}, r"argument 'x\['k'\]\[1\]' must have 2 items, got 1"),
        (NESTED, {"k": ["a", ("b", "c"), 3]}, r"'x\['k'\]\[2\]' was compiled as the constant 2, got 3"),
        (NESTED, {"k": ["a", ("b", "c"), 2.0]}, r"'x\['k'\]\[2\]' was compiled as the constant 2, got 2.0"),
        ({"const": True}, 1, "'x' was compiled as the constant True, got 1"),
        ({"const": None}, [1], "'x' was compiled as the constant None, got list"),
        (
            OUTPUT,
            5,
            r"must be a classes_for_structure_tests:Output or a dict with the keys \['logits', 'loss'\]",
        ),
        (
            CACHE,
            ["a", "b"],
            "'x' must be a classes_for_structure_tests:Cache or a dict with the keys .'0', '1'., got list",
        ),
        (CACHE, Cache(["a"], 3), "argument 'x' must have 2 items, got 1"),
    ],
)
def test_errors_name_the_place(node: dict, value: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        structure.flatten(node, value, "x")


def test_a_registered_class_of_another_context_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"'x' was compiled with .*'version': 3.*'version': 4"):
        structure.flatten(CACHE, Cache(["a", "b"], 4), "x")


def test_paths_and_classes() -> None:
    node = {"tuple": [NESTED, class_node("Output", "dataclass", ("logits", leaf(3)))]}
    assert structure.paths(node, "x") == {
        0: "x[0]['k'][0]",
        1: "x[0]['k'][1].right",
        3: "x[1].logits",
    } | {0: "x[0]['k'][1].left"}
    assert list(structure.leaves(node)) == [0, 0, 1, 3]
    assert structure.classes(node) == [
        "classes_for_structure_tests:Pair",
        "classes_for_structure_tests:Output",
    ]
