"""State: calls accumulate, reads see the value of their moment, forks are independent, threads do not interleave."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

import pipeline
from pipeline.runtime import ArgumentError, ExecutionError


class Decoder(nn.Module):
    """A KV cache, a counter outside the state dict, and weights."""

    cache: torch.Tensor
    step: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(1, 16, 8))
        self.register_buffer("step", torch.tensor(0), persistent=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.cache.index_copy_(1, self.step.reshape(1), self.key(x).unsqueeze(1))
        seen = torch.arange(16) <= self.step
        scores = (self.cache @ x.reshape(1, 8, 1)).masked_fill(~seen.reshape(1, 16, 1), -torch.inf)
        self.step.add_(1)
        return (scores.softmax(1) * self.cache).sum(1), self.step


class Normed(nn.Module):
    """BatchNorm in train mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


class Order(nn.Module):
    """Every way to read a buffer around its update, buffers that swap and shift, and arguments that become state."""

    counter: torch.Tensor
    left: torch.Tensor
    right: torch.Tensor
    newest: torch.Tensor
    older: torch.Tensor
    oldest: torch.Tensor
    row: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        for i, name in enumerate(("counter", "left", "right", "newest", "older", "oldest")):
            self.register_buffer(name, torch.full((4, 8), float(i)))
        self.register_buffer("row", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        before = self.counter.clone()
        part = self.counter[1:3].clone()
        product = self.counter @ x.t()
        self.counter.add_(1)
        left = self.left.clone()
        self.left.copy_(self.right)
        self.right.copy_(left)
        self.oldest.copy_(self.older)
        self.older.copy_(self.newest)
        self.row.copy_(self.newest[2])
        self.newest.copy_(x)
        return {
            "before": before,
            "part": part,
            "turned": before.t(),
            "product": product,
            "after": self.counter,
            "again": self.counter,
            "view": self.counter[0],
            "oldest": self.oldest,
            "x": x,
        }


class Failing(nn.Module):
    """The smallest state, for calls that fail and for threads."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(256))
        self.scale = nn.Parameter(torch.ones(256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x * self.scale)
        return self.total


@pytest.fixture(scope="module")
def decoder() -> tuple[pipeline.Executable, Decoder]:
    torch.manual_seed(0)
    model = Decoder()
    return pipeline.compile(model, args=(torch.randn(1, 8),)), model


@pytest.fixture(scope="module")
def order() -> pipeline.Executable:
    return pipeline.compile(Order(), args=(torch.randn(4, 8),), target="cpu,vulkan", device="cpu")


@pytest.fixture(scope="module")
def adding() -> pipeline.Executable:
    return pipeline.compile(Failing(), args=(torch.zeros(256),))


def buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.named_buffers()}


def test_batch_norm_statistics_move() -> None:
    model = Normed().train()
    executable = pipeline.compile(model, args=(torch.randn(6, 4),))
    for step in range(3):
        x = torch.randn(6, 4) * (step + 1)
        torch.testing.assert_close(executable(x), model(x).detach())
        torch.testing.assert_close(executable.state_dict(), buffers(model))
    assert int(executable.state_dict()["norm.num_batches_tracked"]) == 3


def test_a_cache_fills_and_empties(decoder: tuple[pipeline.Executable, Decoder]) -> None:
    executable, model = decoder[0].new_state(), copy.deepcopy(decoder[1])
    inputs = torch.randn(5, 1, 8)
    history = []
    with torch.no_grad():
        for x in inputs:
            history.append((executable(x), [value.clone() for value in model(x)]))
    for found, expected in history:  # after all calls: results are snapshots
        torch.testing.assert_close(list(found), expected)
    assert list(executable.state_dict()) == ["cache", "step"]
    torch.testing.assert_close(executable.state_dict(), buffers(model))
    executable.reset()
    torch.testing.assert_close(executable.state_dict(), buffers(decoder[1]))
    torch.testing.assert_close(executable(inputs[0]), history[0][0])


def test_forks_share_weights_and_nothing_else(decoder: tuple[pipeline.Executable, Decoder]) -> None:
    first = decoder[0].new_state()
    x = torch.randn(1, 8)
    first(x)
    second = first.new_state()
    assert second._program is first._program
    assert int(second.state_dict()["step"]) == 0
    result = second(x * 2)
    first(x)
    assert [int(fork.state_dict()["step"]) for fork in (first, second)] == [2, 1]
    second.reset()
    torch.testing.assert_close(second(x * 2), result)
    assert int(first.state_dict()["step"]) == 2


def test_state_dict_there_and_back(decoder: tuple[pipeline.Executable, Decoder]) -> None:
    first, second = decoder[0].new_state(), decoder[0].new_state()
    x = torch.randn(1, 8)
    for _ in range(3):
        first(x)
    saved = first.state_dict()
    second.load_state_dict(saved)
    expected = first(x)
    torch.testing.assert_close(second(x), expected)
    assert int(saved["step"]) == 3  # a snapshot, and loading copied it
    saved["cache"].fill_(7)
    torch.testing.assert_close(second.state_dict(), first.state_dict())
    # NumPy arrays, and layouts of all kinds.
    second.load_state_dict(
        {"step": np.array(0), "cache": torch.zeros(8, 16, 1).permute(2, 1, 0).requires_grad_()}
    )
    torch.testing.assert_close(second.state_dict(), buffers(decoder[1]))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, r"the state is \['cache', 'step'\]; missing \['cache', 'step'\]"),
        ({"cache": torch.zeros(1, 16, 8)}, r"missing \['step'\]"),
        (
            {"cache": torch.zeros(1, 16, 8), "step": torch.tensor(0), "key.weight": 1},
            r"unknown \['key.weight'\]",
        ),
        (
            {"cache": torch.zeros(1, 16, 9), "step": torch.tensor(0)},
            "'cache' must be 1x16x8xf32, got 1x16x9xf32",
        ),
        ({"cache": torch.zeros(1, 16, 8), "step": torch.tensor(0.0)}, "state 'step' must be i64, got f32"),
        ({"cache": torch.zeros(1, 16, 8), "step": 0}, "state 'step' must be a tensor i64, got 0"),
        (
            {"cache": torch.zeros(1, 16, 8, device="meta"), "step": torch.tensor(5)},
            "'cache' must be .*meta device",
        ),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(decoder, state: dict, message: str) -> None:
    executable = decoder[0].new_state()
    executable(torch.randn(1, 8))
    before = executable.state_dict()
    with pytest.raises(ArgumentError, match=message):
        executable.load_state_dict(state)
    torch.testing.assert_close(executable.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    "device", ["local-sync", "local-task", pytest.param("vulkan", marks=pytest.mark.vulkan)]
)
def test_reads_around_updates(order: pipeline.Executable, tmp_path, device: str) -> None:
    order.save(tmp_path / "m.vmfb")
    executable, model = pipeline.load(tmp_path / "m.vmfb", device=device), Order()
    history = []
    for step in range(4):
        x = torch.randn(4, 8)
        found = executable(x)
        history.append((found, {name: value.clone() for name, value in model(x).items()}))
        x.fill_(step)  # the argument's memory must not have become the state's
        torch.testing.assert_close(executable.state_dict(), buffers(model))
    for found, expected in history:
        torch.testing.assert_close(found, expected)


def test_results_that_are_written_to_change_nothing_else(order: pipeline.Executable) -> None:
    executable, model = order.new_state(), Order()
    for _ in range(3):
        x = torch.randn(4, 8)
        kept = x.clone()
        found, expected = executable(x), model(x)
        for name, value in found.items():
            torch.testing.assert_close(value, expected[name])
            value.fill_(-1)
        torch.testing.assert_close(x, kept)
        torch.testing.assert_close(executable.state_dict(), buffers(model))


def test_a_call_that_fails_keeps_the_state(adding: pipeline.Executable, monkeypatch) -> None:
    executable = adding.new_state()
    executable(torch.ones(256))
    with pytest.raises(ArgumentError):
        executable(torch.ones(255))
    assert executable.state_dict()["total"].unique().tolist() == [1]

    def fail(*_: object) -> None:
        raise RuntimeError("device lost")

    with monkeypatch.context() as patch:
        patch.setattr(executable._program, "_context", type("Context", (), {"invoke": fail})())
        with pytest.raises(ExecutionError, match="the call of 'main' failed on local-sync: device lost"):
            executable(torch.ones(256))
    assert executable.state_dict()["total"].unique().tolist() == [1]
    assert executable(torch.ones(256)).unique().tolist() == [2]


def test_threads_on_one_state_do_not_interleave(adding: pipeline.Executable) -> None:
    executable = adding.new_state()
    one = torch.ones(256)
    start = threading.Barrier(4)

    def work() -> list[float]:
        start.wait()
        seen = []
        for _ in range(200):
            (value,) = executable(one).unique().tolist()  # one value: no half of another call in it
            seen.append(value)
        return seen

    with ThreadPoolExecutor(4) as pool:
        counts = [future.result() for future in [pool.submit(work) for _ in range(4)]]
    assert sorted(value for seen in counts for value in seen) == list(range(1, 801))
    assert executable.state_dict()["total"].unique().tolist() == [800]


def test_reading_and_setting_while_others_call(adding: pipeline.Executable) -> None:
    executable = adding.new_state()
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            assert len(executable(torch.ones(256)).unique()) == 1

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(call) for _ in range(2)]
        try:
            for step in range(200):
                assert len(executable.state_dict()["total"].unique()) == 1
                executable.reset() if step % 2 else executable.load_state_dict(
                    {"total": torch.full((256,), 1e4)}
                )
        finally:
            stop.set()
        for future in futures:
            future.result()


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_states_run_in_parallel(adding: pipeline.Executable, tmp_path, device: str) -> None:
    adding.save(tmp_path / "m.vmfb")
    base = pipeline.load(tmp_path / "m.vmfb", device=device)
    inside, together = threading.Barrier(2, timeout=30), []
    run = base._program.run

    def meet(*arguments: object) -> list:
        # Both calls are in here at once, or the barrier breaks.
        if not together:
            inside.wait()
            together.append(True)
        return run(*arguments)

    forks = [base.new_state() for _ in range(2)]
    base._program.run = meet  # type: ignore[method-assign]

    def work(number: int) -> None:
        for step in range(1, 201):
            result = forks[number](torch.full((256,), float(number + 1)))
            assert result.unique().tolist() == [step * (number + 1)]

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work, number) for number in range(2)]:
            future.result()
    assert together


def test_no_state() -> None:
    executable = pipeline.compile(nn.ReLU(), args=(torch.randn(2),))
    assert executable.state_dict() == {}
    executable.reset()
    executable.load_state_dict({})
    with pytest.raises(ArgumentError, match=r"unknown \['x'\]"):
        executable.load_state_dict({"x": torch.zeros(1)})
    # Nothing to serialise: a call may run while another thread is inside one.
    with executable._state.lock:
        assert executable.new_state()(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]
        assert executable(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]
