"""Shared by the targets' tests: the examples by name, and artifacts compiled without loading them."""

import importlib.util
from pathlib import Path

import pytest

from pipeline.api import capture_checked, compile_options
from pipeline.compiler import compile_program
from pipeline.entry_points import EntrySpec, split_inputs

EXAMPLES = Path(__file__).parents[3] / "examples"


def _small(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.get_model(module.small_config()) if hasattr(module, "small_config") else module.get_model()
    if hasattr(module, "small_entry_points"):
        return model, {k: EntrySpec.from_user(k, v) for k, v in module.small_entry_points().items()}
    inputs = getattr(module, "small_inputs", module.get_example_inputs)()
    args, kwargs = split_inputs(inputs, name)
    return model, {"main": EntrySpec(args, kwargs, getattr(module, "dynamic_shapes", None))}


@pytest.fixture(scope="session")
def small_example():
    """The small model of an example, by name, and its entry points."""
    return _small


@pytest.fixture(scope="session")
def build():
    """Compiles a model with its entry points into an artifact; needs no device."""

    def compile_for(model, entries, target, **options):
        settings = compile_options(target, **options)
        return compile_program(capture_checked(model, entries, settings), settings)

    return compile_for
