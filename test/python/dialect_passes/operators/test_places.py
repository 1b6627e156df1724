"""Reading, writing and counting by places and masks, many operators in one program."""

import torch

import pipeline


class Writes(torch.nn.Module):
    """Also with updates that are read from the tensor that is written into."""

    def forward(self, x, mask, places, rows, values):
        written = [x.clone() for _ in range(4)]
        least = torch.kthvalue(x, 2, -1, keepdim=True)
        written[0][mask] = 5.0
        written[1][mask] = values
        written[2][mask[:, 0]] += 1
        written[3].index_put_((rows, rows), torch.ones(2), accumulate=True)
        return (
            *written,
            x.scatter(0, places, x),
            torch.zeros(3, dtype=torch.bool).index_add(0, places[:, 0] * 0 + 1, mask[:, 1]),
            torch.zeros(3, dtype=torch.bool).scatter_add(0, places[:, 0] * 0, mask[:, 1]),
            *(
                mask[:, 0].scatter_reduce(0, places[:, 0] * 0, mask[:, 1], how, include_self=own)
                for how in ("sum", "prod", "amax", "amin")
                for own in (True, False)
            ),
            *least,
            x.scatter(-1, least.indices, least.values * 2),
            x.index_copy(0, rows, x[:2]),
            x.index_reduce(0, rows, x[:2], "prod"),
            *(
                (4 - x * 3).to(dtype).scatter_reduce(0, places, (2 - x).to(dtype), "mean", include_self=own)
                for dtype in (torch.int64, torch.uint8)
                for own in (True, False)
            ),
            x.put(places, x, accumulate=True),
            x.take(places),
            x.diagonal_scatter(x[:2, 0]),
            x[:, rows.int()],
            torch.ops.aten.index_put(x, [None, rows.int()], values[:2], True),
            torch.ops.aten.unfold_backward(x[:, :1, None] * rows.reshape(1, 1, 2), [3, 2], 1, 2, 1),
        )


class Copies(torch.nn.Module):
    """Copies of views are refused nowhere: torch's functionalization and its users call them."""

    def forward(self, x):
        return (
            torch.permute_copy(x, (1, 0)),
            torch.view_copy(x, (-1,)),
            torch.view_copy(x, torch.int32),
            torch.select_copy(x, 1, 0),
            torch.slice_copy(x, 0, 1),
            torch.narrow_copy(x, 0, 1, 2),
            torch.view_as_real_copy(torch.view_as_complex_copy(x)),
            *torch.ops.aten.split_copy.Tensor(x, 2),
            *torch.ops.aten.unbind_copy.int(x, 1),
        )


class Selections(torch.nn.Module):
    """Results of sizes that the data decide, and counts."""

    def forward(self, x, mask):
        return (
            x[mask],
            x[mask[:, 0], 1],
            x.masked_select(x > 2),
            *torch.unique(x, return_inverse=True, return_counts=True),
            torch.unique(x, dim=1),
            torch.histc(x, 4),
            *torch.cummax(x, 0),
            *torch.nanmedian(x, 1),
            *torch.mode(x, 0),
            torch.logcumsumexp(x, 0),
            torch.searchsorted(x[:, 0].contiguous(), x[0]),
            torch.searchsorted(x[:, 0].long(), 2.5),
            torch.searchsorted(x[:, 0].long(), x[0] + 0.5),
            torch.bucketize(2.5, x[:, 0].int()),
            torch.searchsorted(x[:, 0] / 10, torch.tensor(0.3, dtype=torch.float64)),
            *(
                f(x[:0].to(dtype))
                for f in (torch.median, torch.nanmedian)
                for dtype in (torch.half, torch.int8)
            ),
            torch.nonzero(x[0, 0]),
            x[0, 0].masked_select(mask[0, 0]),
            torch.bincount(x[:, 0].to(torch.uint8)),
        )


class Numbers(torch.nn.Module):
    """Places of tensors without dimensions, or named by such, and what reduces them."""

    def forward(self, x, zero):
        row = torch.stack([x, x + 1])
        return (
            x.gather(0, zero),
            x.gather(0, zero.reshape(1)),
            row.gather(0, zero),
            x.index_select(0, zero.reshape(1)),
            row.index_select(0, zero + 1),
            x.index_add(0, zero, x, alpha=2),
            row.index_add(0, zero.reshape(1), row[1:]),
            x.scatter_reduce(0, zero, x - 1, "amin"),
            x.scatter_add(0, zero, x),
            x.scatter(0, zero, 2.5),
            x.prod(0),
            (x > 0).prod(0),
            torch.linalg.vector_norm(-x, torch.inf, 0, keepdim=True),
        )


def _arguments():
    x = torch.tensor([[1.0, 2.0], [3.0, 3.0], [5.0, 1.0]])
    mask = torch.tensor([[True, False], [False, True], [True, True]])
    places = torch.tensor([[0, 1], [2, 0], [1, 1]])
    rows = torch.tensor([1, 0])
    return x, mask, places, rows, torch.arange(10.0, 14.0)


def test_writes():
    arguments = _arguments()
    _compare(Writes(), arguments)


def test_numbers():
    _compare(Numbers(), (torch.tensor(3.0), torch.tensor(0)))


def test_copies_of_views():
    _compare(Copies(), _arguments()[:1])


def test_places_out_of_range_stay_inside_of_memory():
    x, _, _, rows, _ = _arguments()
    compiled = pipeline.compile(_Copy(), args=(x, rows))
    nearest = torch.tensor([2, 0])
    assert torch.equal(compiled(x, torch.tensor([10**9, 0])), x.index_copy(0, nearest, x[:2] * 2))


class _Copy(torch.nn.Module):
    def forward(self, x, rows):
        return x.index_copy(0, rows, x[:2] * 2)


def test_selections():
    _compare(Selections(), _arguments()[:2])


def _compare(module, arguments):
    for got, want in zip(
        pipeline.compile(module, args=arguments)(*arguments), module(*arguments), strict=True
    ):
        torch.testing.assert_close(got, want, equal_nan=True)
