"""Optimizer steps raise the versions of the parameters that they write.

What is bound to a program is loaded again when its version changes. PyTorch's fused steps (``AdamW(fused=True)``) and
optimizers that write through ``parameter.data`` change values and leave the versions alone, so that nothing could tell.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook


@cache
def watch_optimizer_steps() -> None:
    """From now on, in this process."""
    register_optimizer_step_post_hook(_raise_versions)  # type: ignore[arg-type]


@torch.compiler.disable  # Steps may be compiled, too; PyTorch breaks their graphs already.
def _raise_versions(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    # Not of the others: what autograd has saved of a parameter that no step writes stays valid.
    increment_version([p for group in optimizer.param_groups for p in group["params"] if p.grad is not None])
