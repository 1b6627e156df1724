"""What all tests of the torch.compile backend start from."""

from collections.abc import Iterator

import pytest
import torch

import pipeline


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No compiled code and no counts of another test, no cache of another run, the same numbers each time."""
    monkeypatch.setenv("PIPELINE_CACHE", "off")
    torch._dynamo.reset()
    torch.manual_seed(0)
    pipeline.counters(reset=True)
    yield
    torch._dynamo.reset()
