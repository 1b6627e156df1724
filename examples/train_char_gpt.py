"""A character GPT learns the text of this repository's licence, compiled and in eager, from the same seed.

python examples/train_char_gpt.py     # prints both losses, and what the trained model writes
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import pipeline

TEXT = (Path(__file__).parents[1] / "LICENSE").read_text(encoding="utf-8")
CHARACTERS = sorted(set(TEXT))
CODES = torch.tensor([CHARACTERS.index(character) for character in TEXT])

clip_norm = 1.0


@dataclass(frozen=True)
class Config:
    layers: int = 2
    width: int = 64
    length: int = 64
    batch: int = 8


def small_config() -> Config:
    return Config(layers=1, width=32, length=32, batch=8)


class GPT(nn.Module):
    """Codes of characters (batch, length) -> logits of those that follow (batch, length, characters)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(len(CHARACTERS), config.width)
        self.places = nn.Embedding(config.length, config.width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                config.width, 4, 4 * config.width, 0.1, F.gelu, batch_first=True, norm_first=True
            )
            for _ in range(config.layers)
        )
        self.norm, self.head = nn.LayerNorm(config.width), nn.Linear(config.width, len(CHARACTERS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(codes.shape[1])
        x = self.embedding(codes) + self.places.weight[: codes.shape[1]]
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.head(self.norm(x))


def get_model(config: Config | None = None) -> GPT:
    torch.manual_seed(0)
    return GPT(config or Config())


def get_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)


def loss_fn(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def get_example_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return batches(Config(), 1)[0]


def batches(config: Config, steps: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pieces of the text, each with the same piece one character later."""
    generator = torch.Generator().manual_seed(0)
    starts = torch.randint(len(CODES) - config.length, (steps, config.batch, 1), generator=generator)
    pieces = [CODES[start + torch.arange(config.length + 1)] for start in starts]
    return [(piece[:, :-1], piece[:, 1:]) for piece in pieces]


def compile_step(model: GPT) -> pipeline.TrainingStep:
    inputs, following = batches(model.config, 1)[0]
    return pipeline.compile_training(
        model,
        loss_fn,
        get_optimizer(model),
        args=(inputs, following),
        entry_points=["train_step"],
        clip_norm=clip_norm,
    )


def train_compiled(step: pipeline.TrainingStep, config: Config, steps: int) -> list[float]:
    """The losses, while the learning rate falls."""
    torch.manual_seed(0)
    losses = []
    for i, batch in enumerate(batches(config, steps)):
        step.learning_rates = 3e-3 * (1 - i / steps)
        losses.append(float(step(*batch)))
    return losses


def train_eager(model: GPT, steps: int) -> list[float]:
    """What `train_compiled` does, in PyTorch."""
    torch.manual_seed(0)
    optimizer, losses = get_optimizer(model), []
    for i, (inputs, following) in enumerate(batches(model.config, steps)):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - i / steps)
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), following)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def write(model: GPT, count: int) -> str:
    """`count` characters, each drawn from what the model expects after the last ones."""
    model.eval()
    codes = CODES[: model.config.length]
    for _ in range(count):
        logits = model(codes[None, -model.config.length :])[0, -1]
        codes = torch.cat([codes, torch.multinomial(logits.softmax(0), 1)])
    return "".join(CHARACTERS[code] for code in codes[model.config.length :])


def main(steps: int = 500) -> None:
    model, eager_model = get_model(), get_model()
    step = compile_step(model)
    compiled, eager = train_compiled(step, model.config, steps), train_eager(eager_model, steps)
    for i in [*range(0, steps, steps // 10), steps - 1]:
        print(f"step {i + 1:4}: loss {compiled[i]:.4f}, in eager {eager[i]:.4f}")
    model.load_state_dict(step.state_dict())
    print(write(model, 300))


if __name__ == "__main__":
    main()
