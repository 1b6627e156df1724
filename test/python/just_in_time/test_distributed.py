"""Training in two processes (gloo): gradients reduced by torch.distributed, compiled programs between."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import pipeline


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x)).relu())


def replicated() -> nn.Module:
    """Whole parameters in each process."""
    return DistributedDataParallel(Net())


def sharded() -> nn.Module:
    """A part of each parameter in each process."""
    model, mesh = Net(), init_device_mesh("cpu", (2,))
    for part in (model.first, model.second, model):
        fully_shard(part, mesh=mesh)
    return model


MADE = {"DistributedDataParallel": replicated, "FSDP2": sharded}


def losses(name: str, rank: int, compiled: bool) -> torch.Tensor:
    """Of ten steps, on data that differ by process; behind the last two what the model gives in inference."""
    torch.manual_seed(0)
    model = MADE[name]()
    call = torch.compile(model, backend="pipeline", options={"fallback": "error"}) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank + 1)
    found = []
    for _ in range(10):
        loss = (call(torch.randn(4, 8)) - torch.randn(4, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
        if len(found) > 8:
            found.append(evaluated(model, call))
    return torch.stack(found)


@torch.no_grad()
def evaluated(model: nn.Module, call: Callable[..., torch.Tensor]) -> torch.Tensor:
    """A value that every parameter has a part in, from an inference graph."""
    model.eval()
    value = call(torch.ones(3, 8)).square().sum()
    model.train()
    return value


def work(rank: int, name: str, folder: str) -> None:
    """One of the two processes; leaves what it found in a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    try:
        found: dict[str, Any] = {"eager": losses(name, rank, False), "compiled": losses(name, rank, True)}
        found["programs"] = pipeline.counters().programs
        torch.save(found, f"{folder}/{rank}.pt")
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("name", ["DistributedDataParallel", pytest.param("FSDP2", marks=pytest.mark.slow)])
def test_losses_are_eagers(name: str, tmp_path: Path) -> None:
    commands = [[sys.executable, __file__, str(rank), name, str(tmp_path)] for rank in range(2)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for each in found:
        assert each["programs"] == 3  # forward, backward, inference
        torch.testing.assert_close(each["compiled"], each["eager"])
    # The processes saw different data.
    assert not torch.equal(found[0]["eager"], found[1]["eager"])


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], sys.argv[3])
