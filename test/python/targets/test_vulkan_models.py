"""Models on Vulkan against eager, in sizes that Mesa's llvmpipe runs in seconds; state, weights and entry points."""

import copy

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import pipeline
from pipeline.runtime.errors import ArgumentError

pytestmark = pytest.mark.vulkan


def cnn():
    """Convolutions, batch norm and both poolings, on 2 images of 3x16x16."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(72, 10),
    )


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.LayerNorm(16))


def encoder_layer():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)


PLAIN = {"mlp": (mlp, (4, 16)), "cnn": (cnn, (2, 3, 16, 16)), "encoder layer": (encoder_layer, (2, 8, 32))}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_model(name):
    make, shape = PLAIN[name]
    model, x = make().eval(), torch.randn(shape)
    exe = pipeline.compile(model, args=(x,), target="vulkan")
    torch.testing.assert_close(exe(x), model(x))


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_language_model(small_example, name):
    """Token ids, padding masks, rotary embeddings; of static sizes, as llvmpipe is slow with dynamic ones."""
    model, entries = small_example(name)
    inputs = entries["main"].kwargs
    exe = pipeline.compile(model, kwargs=inputs, target="vulkan")
    with torch.no_grad():
        torch.testing.assert_close(tree_leaves(exe(**inputs)), tree_leaves(model(**inputs)))


@pytest.fixture(scope="module")
def trained():
    """A CNN in training mode: each call moves the running statistics, of which one is an int64 count."""
    model, x = cnn().train(), torch.randn(2, 3, 16, 16)
    return model, x, pipeline.compile(copy.deepcopy(model), args=(x,), target="vulkan")


def test_batch_norm_state_moves_as_eager(trained):
    model, x, exe = trained
    eager = copy.deepcopy(model)
    for _ in range(2):
        torch.testing.assert_close(exe(x), eager(x))
        buffers = dict(eager.named_buffers())
        state = exe.state_dict()
        assert set(state) == set(buffers)
        for name, value in state.items():
            torch.testing.assert_close(value, buffers[name])
    exe.reset()
    initial = dict(model.named_buffers())
    for name, value in exe.state_dict().items():
        torch.testing.assert_close(value, initial[name], rtol=0, atol=0)


def test_state_is_set_and_forked(trained):
    model, _, exe = trained
    exe.reset()
    fork = exe.new_state()
    wanted = {name: torch.full_like(value, 3) for name, value in exe.state_dict().items()}
    fork.load_state_dict(wanted)
    torch.testing.assert_close(fork.state_dict(), wanted, rtol=0, atol=0)
    initial = dict(model.named_buffers())
    torch.testing.assert_close(exe.state_dict()["1.running_var"], initial["1.running_var"])
    with pytest.raises(ArgumentError, match="missing"):
        fork.load_state_dict({})


class Cache(nn.Module):
    """A key cache of 8 rows: `fill` overwrites its start, `append` one row, both read all of it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.project = nn.Linear(4, 4)
        self.register_buffer("keys", torch.zeros(8, 4))

    def fill(self, x):
        self.keys[: x.shape[0]] = self.project(x)
        return self.keys.sum(0)

    def append(self, x, position):
        self.keys.index_copy_(0, position, self.project(x))
        return self.keys @ x[0]


@pytest.mark.parametrize("weights", ["inline", "external"])
def test_entry_points_share_a_cache_and_weights(weights, tmp_path):
    eager, x, row = Cache().eval(), torch.randn(3, 4), torch.randn(1, 4)
    exe = pipeline.compile(
        Cache().eval(),
        entry_points={
            "fill": {"method": "fill", "args": (x,)},
            "append": {"method": "append", "args": (row, torch.tensor([3]))},
        },
        target="vulkan",
        weights=weights,
    )
    files = exe.save(tmp_path / "cache.vmfb")
    assert len(files) == (2 if weights == "external" else 1)
    exe = pipeline.load(tmp_path / "cache.vmfb")
    with torch.no_grad():
        torch.testing.assert_close(exe.fill(x), eager.fill(x))
        for i in (3, 4):
            position = torch.tensor([i])
            torch.testing.assert_close(exe.append(row, position), eager.append(row, position))
    torch.testing.assert_close(exe.state_dict()["keys"], eager.keys)
    copies = exe.state_dict()["keys"].numpy()
    assert exe.fill(x.numpy()).dtype == copies.dtype, "NumPy in, NumPy out"
