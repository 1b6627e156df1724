"""The examples that learn a task: examples/train_*.py."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_are_learnt() -> None:
    assert example("train_digits").train(epochs=10) > 0.97


@pytest.mark.slow
def test_a_character_gpt_learns_as_in_eager() -> None:
    module = example("train_char_gpt")
    model, eager_model = (module.get_model(module.small_config()) for _ in range(2))
    step = module.compile_step(model)
    compiled = module.train_compiled(step, model.config, 50)
    # Rounding differs, and each step builds on the last one's.
    torch.testing.assert_close(compiled, module.train_eager(eager_model, 50), rtol=1e-5, atol=1e-5)
    assert compiled[-1] < 0.75 * compiled[0]
