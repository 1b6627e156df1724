"""The joint graph of a loss: eager's values and gradients, and the user's lines."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import pipeline
from pipeline.source_lines import user_line
from pipeline.training.gradients import trace_gradients
from pipeline.training.loss import BatchLoss, batch_names, takes_model


class Checkpointed(nn.Module):
    """A part whose forward is run again in backward, with the same dropout."""

    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 8), nn.Linear(8, 3)
        self.reentrant = reentrant

    def part(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(torch.tanh(self.second(x)), 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.third(checkpoint(self.part, x, use_reentrant=self.reentrant))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 4), torch.tensor([0, 1, 2, 2, 1, 0])


def test_reentrant_checkpointing_is_refused() -> None:
    with pytest.raises(pipeline.InputError, match="set use_reentrant=False"):
        trace_gradients(BatchLoss(Checkpointed(reentrant=True), nn.CrossEntropyLoss()), batch())


def test_each_operator_knows_its_line() -> None:
    traced = trace_gradients(BatchLoss(Checkpointed(), nn.CrossEntropyLoss()), batch())
    lines = {str(node.target): user_line(node) or "" for node in traced.module.graph.nodes}
    for operator in (
        "aten.tanh.default",
        "aten.tanh_backward.default",
        "aten.native_dropout_backward.default",
    ):
        assert "test_gradients.py:" in lines[operator]


class Doubled(nn.Module):
    """Updates its argument."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x


def test_an_argument_that_is_updated_is_refused() -> None:
    model = nn.Sequential(Doubled(), nn.Linear(4, 3))
    with pytest.raises(pipeline.UnsupportedError, match="updates an argument of the batch in place"):
        trace_gradients(BatchLoss(model, nn.CrossEntropyLoss()), batch())


class Assigns(nn.Module):
    """Counts in an attribute, and does `what` with the model's tensors."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what, self.calls, self.last, self.sums = what, 1, None, torch.zeros(3)
        self.linear = nn.Linear(4, 3)
        self.register_buffer("average", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last = self.linear(x) * self.calls
        exec(self.what)
        return self.last


def test_a_pass_leaves_the_model_as_it_was() -> None:
    model = Assigns("self.average = self.average + self.last.mean(0); self.seen = x")
    before, x = dict(vars(model)), batch()
    average = model.average
    found = trace_gradients(BatchLoss(model, nn.CrossEntropyLoss()), x)
    assert vars(model) == before and model.average is average and average.eq(0).all()
    tensors = {f"model.{name}": value.detach() for name, value in model.state_dict().items()}
    loss, _, updates = found(tensors, x, steps=torch.tensor(0))
    torch.testing.assert_close(loss, nn.CrossEntropyLoss()(model(x[0]), x[1]).detach())
    torch.testing.assert_close(updates, {"model.average": model.average.detach()})


REFUSED = {
    "self.sums.add_(self.last.detach().mean(0))": "updates a tensor in place that is none of the model",
    "self.average = None": "makes the buffer 'average' nothing, it was float32[3]",
    "self.average = x[0].double()": "makes the buffer 'average' float64[4], it was float32[3]",
    "self.linear.bias = nn.Parameter(x[0, :3])": "replaces the parameter 'linear.bias'",
}


@pytest.mark.parametrize("what", REFUSED)
def test_updates_that_cannot_be_followed_are_refused(what: str) -> None:

    with pytest.raises(pipeline.UnsupportedError, match=re.escape(REFUSED[what])):
        trace_gradients(BatchLoss(Assigns(what), nn.CrossEntropyLoss()), batch())


def annotated(net: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return net(tokens).sum()


LOSSES: dict[str, tuple[Callable[..., object], bool, list[str]]] = {
    "a module": (nn.CrossEntropyLoss(), False, ["input", "target"]),
    "a function": (nn.functional.mse_loss, False, ["input", "target"]),
    "a lambda": (lambda output, label: output.sum() + label, False, ["input", "label"]),
    "of the model": (lambda model, image, label: model(image).sum() + label, True, ["image", "label"]),
    "of a module by annotation": (annotated, True, ["tokens", "batch_1"]),
}


@pytest.mark.parametrize("case", LOSSES)
def test_how_a_loss_is_called(case: str) -> None:
    loss_fn, expected, names = LOSSES[case]
    assert takes_model(loss_fn) is expected
    assert batch_names(nn.Sequential(nn.Linear(4, 3)), loss_fn, 2) == names
