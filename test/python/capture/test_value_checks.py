"""Models with distributions and variances: PyTorch's Python checks their values, which no tracing can."""

import pytest
import torch
from torch import distributions, nn

import pipeline


class VariationalAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 6), nn.Linear(3, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, width = self.encoder(x).chunk(2, -1)
        posterior = distributions.Normal(mean, width.exp())
        code = posterior.rsample()
        prior = distributions.Normal(torch.zeros_like(mean), torch.ones_like(width))
        pixels = distributions.Bernoulli(logits=self.decoder(code))
        choice = distributions.Categorical(logits=mean)
        return (
            pixels.log_prob((x > 0).float()).sum(),
            distributions.kl_divergence(posterior, prior).sum(),
            choice.log_prob(torch.zeros(4, dtype=torch.int64)) + choice.entropy(),
        )


def test_distributions_as_eager() -> None:
    model, x = VariationalAutoencoder(), torch.randn(4, 8)
    executable = pipeline.compile(model, args=(x,))
    torch.manual_seed(0)
    expected = model(x)
    torch.manual_seed(0)
    torch.testing.assert_close(executable(x), expected)
    assert distributions.Distribution._validate_args, "eager checks again after a compilation"


@pytest.mark.parametrize("shape", [(4, 3), (4,), (4, 1)])
def test_gaussian_loss_as_eager(shape) -> None:
    class Loss(nn.Module):
        def forward(
            self, x: torch.Tensor, target: torch.Tensor, var: torch.Tensor
        ) -> tuple[torch.Tensor, ...]:
            return nn.functional.gaussian_nll_loss(x, target, var, full=True), nn.GaussianNLLLoss(
                reduction="none"
            )(x, target, var)

    arguments = torch.randn(4, 3), torch.randn(4, 3), torch.rand(shape)
    arguments[2].flatten()[0] = 0.0
    executable = pipeline.compile(Loss(), args=arguments)
    torch.testing.assert_close(executable(*arguments), Loss()(*arguments))
    arguments[2].flatten()[1] = -1.0
    assert executable(*arguments)[0].isnan(), "where eager raises"


def test_gaussian_loss_trains_as_eager() -> None:
    def parameters(step: str) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model, x, target = nn.Linear(3, 2), torch.randn(5, 3), torch.randn(5, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def loss_fn(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            mean, width = model(x).chunk(2, -1)
            return nn.functional.gaussian_nll_loss(mean, target, torch.relu(width))

        if step == "compiled":
            compiled = pipeline.compile_training(
                model, loss_fn, optimizer, args=(x, target), entry_points=("train_step",)
            )
            compiled(x, target)
            return dict(compiled.state_dict())
        loss_fn(model, x, target).backward()
        optimizer.step()
        return dict(model.state_dict())

    torch.testing.assert_close(parameters("compiled"), parameters("eager"))
