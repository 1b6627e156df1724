"""A two-layer LSTM language model with tied embeddings: tokens and state in, logits and next state out."""

import torch
from torch import nn
from torch.export import Dim

VOCABULARY, HIDDEN, LAYERS = 10000, 256, 2
State = tuple[torch.Tensor, torch.Tensor]

batch = Dim("batch", min=1, max=64)
dynamic_shapes = {"tokens": {0: batch}, "state": ({1: batch}, {1: batch})}


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, LAYERS, batch_first=True)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        hidden, state = self.lstm(self.embedding(tokens), state)
        return self.head(hidden), state


def get_model() -> nn.Module:
    torch.manual_seed(0)
    return LanguageModel().eval()


def inputs(batch: int) -> tuple[torch.Tensor, State]:
    torch.manual_seed(0)
    state = torch.randn(LAYERS, batch, HIDDEN), torch.randn(LAYERS, batch, HIDDEN)
    return torch.randint(VOCABULARY, (batch, 16)), state


def get_example_inputs() -> tuple[torch.Tensor, State]:
    return inputs(4)


def get_further_inputs() -> list[tuple[torch.Tensor, State]]:
    return [inputs(1), inputs(3), inputs(9)]
