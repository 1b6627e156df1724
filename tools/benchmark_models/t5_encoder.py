"""The encoder of examples/t5.py on one sequence of 128 tokens."""

import runpy
from pathlib import Path

import torch
from torch import nn

_T5 = Path(__file__).resolve().parents[2] / "examples" / "t5.py"


def get_model() -> nn.Module:
    return runpy.run_path(str(_T5))["get_model"]().get_submodule("encoder")


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"input_ids": torch.randint(32128, (1, 128))}
