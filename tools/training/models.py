"""Small models of the kinds that people train, each with a batch and a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Task:
    """What to train. loss_fn: as `pipeline.compile_training` takes it. draw: a new batch from a generator."""

    model: nn.Module
    loss_fn: Callable[..., Any]
    draw: Callable[[torch.Generator], tuple[torch.Tensor, ...]]


class Recurrent(nn.Module):
    """Two layers of an LSTM or GRU over tokens, with dropout in between."""

    def __init__(self, cell: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.cells = cell(16, 24, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(24, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(self.embedding(tokens))[0])


class Block(nn.Module):
    """A block of a transformer, norm first."""

    def __init__(self, width: int, heads: int, *, causal: bool, dropout: float) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2)
        x = x + self.dropout(self.out(attended))
        return x + self.dropout(self.mlp(self.norms[1](x)))


class GPT(nn.Module):
    """A decoder over tokens whose head is the embedding."""

    def __init__(self, vocabulary: int = 20, length: int = 16, width: int = 32) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4, causal=True, dropout=0.1) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


class ViT(nn.Module):
    """Patches of an image, a class token, and its result."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token, self.places = (
            nn.Parameter(torch.zeros(1, 1, width)),
            nn.Parameter(torch.zeros(1, 17, width)),
        )
        self.blocks = nn.Sequential(*(Block(width, 4, causal=False, dropout=0.0) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        patches = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(image.shape[0], -1, -1), patches], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def _classifier(model: nn.Module, *shape: int) -> Task:
    def draw(generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        return torch.randn(8, *shape, generator=generator), torch.randint(0, 10, (8,), generator=generator)

    return Task(model, nn.CrossEntropyLoss(), draw)


def _tokens(*lengths: int, vocabulary: int = 20) -> Callable[[torch.Generator], tuple[torch.Tensor, ...]]:
    return lambda generator: tuple(
        torch.randint(0, vocabulary, (4, length), generator=generator) for length in lengths
    )


def _next_token(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def _own_loss(model: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> Any:
    """Transformers' models take their labels."""
    return model(input_ids=tokens, labels=labels).loss


def mlp() -> Task:
    """Linear layers."""
    return _classifier(nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10)), 20)


def cnn() -> Task:
    """Convolutions with batch norm and max-pooling."""
    layers = [nn.Conv2d(1, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return _classifier(nn.Sequential(*layers, nn.Linear(8 * 36, 10)), 1, 14, 14)


def lstm() -> Task:
    """A recurrent net."""
    return Task(Recurrent(nn.LSTM), _next_token, _tokens(12, 12))


def gru() -> Task:
    """A recurrent net."""
    return Task(Recurrent(nn.GRU), _next_token, _tokens(12, 12))


def gpt() -> Task:
    """A decoder with dropout and tied weights."""
    return Task(GPT(), _next_token, _tokens(16, 16))


def vit() -> Task:
    """An encoder of images."""
    return _classifier(ViT(), 3, 16, 16)


def bert() -> Task:
    """Transformers' BERT with dropout, masked tokens."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=64, max_position_embeddings=32)  # fmt: skip
    return Task(BertForMaskedLM(config), _own_loss, _tokens(12, 12))


def gpt2() -> Task:
    """Transformers' GPT-2 with dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=20, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False,
                        bos_token_id=0, eos_token_id=0)  # fmt: skip
    model = GPT2LMHeadModel(config)
    # Or transformers logs that it takes this one, and Dynamo breaks the graph there.
    model.loss_type = "ForCausalLM"
    return Task(model, _own_loss, _tokens(12, 12))


def llama() -> Task:
    """Transformers' Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, use_cache=False,
                         num_key_value_heads=2, intermediate_size=64, max_position_embeddings=32)  # fmt: skip
    return Task(LlamaForCausalLM(config), _own_loss, _tokens(12, 12))


def t5() -> Task:
    """Transformers' T5 with dropout."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=20, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)
    config.decoder_start_token_id = 0
    return Task(T5ForConditionalGeneration(config), _own_loss, _tokens(12, 10))


def resnet() -> Task:
    """Transformers' ResNet."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    config.num_labels = 10
    model = ResNetForImageClassification(config)

    def draw(generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        return torch.randn(8, 3, 32, 32, generator=generator), torch.randint(0, 10, (8,), generator=generator)

    return Task(model, lambda model, image, labels: model(image, labels=labels).loss, draw)


TASKS = {task.__name__: task for task in (mlp, cnn, lstm, gru, gpt, vit, bert, gpt2, llama, t5, resnet)}
"""Name -> what makes the task."""
