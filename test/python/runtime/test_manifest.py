"""The manifest's JSON: nothing is lost on the way, and what cannot be read is one clear error."""

import json
from dataclasses import replace

import pytest

from pipeline.runtime import ArtifactError
from pipeline.runtime.dims import Bounds
from pipeline.runtime.manifest import (
    FORMAT,
    Draw,
    EntryPoint,
    Manifest,
    Parameter,
    TensorSpec,
    ValueSpec,
    WeightsInfo,
    parse,
    spec_nbytes,
)

ENTRY = EntryPoint(
    name="main",
    parameters=(
        Parameter("x", True, {"leaf": 0}),
        Parameter("n", False, {"tuple": [{"leaf": 1}, {"const": 2}]}),
    ),
    inputs=(ValueSpec("x", "tensor", TensorSpec("bfloat16", ("b", 4))), ValueSpec("n[0]", "int")),
    outputs=(ValueSpec("output['ä\"\\n']", "tensor", TensorSpec("bool", ())),),
    result={"dict": [['ä"\n', {"leaf": 0}], [1, {"const": ["float", "nan"]}]]},
    mutated_inputs=(0,),
    state_inputs=("cache",),
    state_outputs=("cache",),
    draws=(Draw("normal_", (0.0, 1.0), TensorSpec("float32", ("b", 2)), (1, 0)),),
    example={"inputs": [{"shape": [1, 4], "normal": 0}, {"int": 3}]},
)
MANIFEST = Manifest(
    versions={"iree": "3.13.0", "pipeline": "0.1.0"},
    targets=({"device": "cpu", "architecture": "x86_64", "features": ["avx"], "options": []},),
    dimensions={"b": Bounds(1, 64), "s": Bounds(0, None)},
    weights=WeightsInfo("external", {"fc.weight": TensorSpec("float16", (3, 4))}),
    state={"cache": TensorSpec("int64", (2,))},
    entry_points={"main": ENTRY},
    notes=("a note",),
)


def test_round_trip() -> None:
    text = MANIFEST.to_json()
    assert parse(text, "m.vmfb") == MANIFEST
    assert parse(text, "m.vmfb").to_json() == text


def test_the_same_manifest_is_the_same_bytes() -> None:
    turned = replace(MANIFEST, versions=dict(reversed(MANIFEST.versions.items())))
    assert turned.to_json() == MANIFEST.to_json()


def test_sizes() -> None:
    assert MANIFEST.weights.nbytes == 24
    assert spec_nbytes(TensorSpec("complex64", ())) == 8
    assert spec_nbytes(TensorSpec("bool", (2, 0))) == 0
    assert str(ENTRY.inputs[0]) == "bx4xbf16"
    assert str(ENTRY.inputs[1]) == "int"


def test_another_format_is_refused() -> None:
    text = json.dumps({**json.loads(MANIFEST.to_json()), "format": FORMAT + 1})
    with pytest.raises(
        ArtifactError, match=rf"m.vmfb: made with manifest format {FORMAT + 1}.*compile the model again"
    ):
        parse(text, "m.vmfb")


def without(*path: str) -> str:
    data = json.loads(MANIFEST.to_json())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        MANIFEST.to_json()[:-20],
        without("format"),
        without("versions"),
        without("weights", "table"),
        without("entry_points", "main", "result"),
        MANIFEST.to_json().replace('"max":64', '"top":64'),
    ],
)
def test_damage_is_one_error(text: str) -> None:
    with pytest.raises(ArtifactError, match=r"m\.vmfb: its manifest is damaged; compile the model again"):
        parse(text, "m.vmfb")
