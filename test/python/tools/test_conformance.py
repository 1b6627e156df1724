"""The conformance runner: its judgement, its records, its workers, and a fixed slice of PyTorch's own samples."""

import os
import signal
import time

import pytest
import torch
from click.testing import CliRunner

from pipeline.dialect_passes.operators import registry
from pipeline.tools.conformance import judge, workers
from pipeline.tools.conformance.__main__ import main as conformance
from pipeline.tools.conformance.cases import Case, chosen, first_dtypes, operators, samples
from pipeline.tools.conformance.denominator import counted, left_out
from pipeline.tools.conformance.execution import execute
from pipeline.tools.conformance.page import page
from pipeline.tools.conformance.programs import OperatorModule, gradient_program, gradients
from pipeline.tools.conformance.records import Record, read
from pipeline.tools.conformance.tolerances import TOLERANCES


def nothing() -> list:
    return [None] * 9


def wrong(actual, expected, exact=nothing, operator="add"):
    with pytest.raises(judge.Wrong) as caught:
        judge.compare(operator, actual, expected, exact)
    return caught.value.status


def test_every_operator_of_opinfo_counts_or_is_left_out_with_a_reason():
    assert sorted([*counted(), *left_out()]) == sorted(operators())
    assert all(left_out().values())
    assert len(counted()) >= 650


def test_wider_tolerances_are_of_known_operators_and_have_reasons():
    assert set(TOLERANCES) <= set(counted())
    assert all(len(item.reason) > 20 for item in TOLERANCES.values())


def test_what_is_equal_is_right():
    nan = torch.tensor([float("nan"), 1.0])
    judge.compare("add", [nan, 3, True, 0.5], [nan.clone(), 3, True, 0.5], nothing)


@pytest.mark.parametrize(
    "actual, expected, status",
    [
        ([torch.ones(2)], [torch.ones(2) * 1.1], judge.WRONG_VALUE),
        ([torch.tensor(float("nan"))], [torch.tensor(1.0)], judge.WRONG_VALUE),
        ([torch.ones(2)], [torch.ones(1, 2)], judge.WRONG_TYPE),
        ([torch.ones(2)], [torch.ones(2, dtype=torch.float64)], judge.WRONG_TYPE),
        ([torch.ones(2, dtype=torch.int8)], [torch.ones(2, dtype=torch.uint8)], judge.WRONG_TYPE),
        ([torch.ones(2)], [torch.ones(2), torch.ones(2)], judge.WRONG_TYPE),
        ([3], [4], judge.WRONG_VALUE),
        ([1], [True], judge.WRONG_VALUE),
        ([float("inf")], [1.0], judge.WRONG_VALUE),
    ],
)
def test_what_differs_is_wrong(actual, expected, status):
    assert wrong(actual, expected) == status


def test_float64_decides_where_rounding_is_all():
    """Eager cancels to 1e-4 here; the exact gradient is nought."""
    eager, exact = torch.tensor([1.5e-4]), torch.tensor([0.0], dtype=torch.float64)
    judge.compare("add", [torch.tensor([0.0])], [eager], lambda: [exact])
    assert wrong([torch.tensor([4e-4])], [eager], lambda: [exact]) == judge.WRONG_VALUE


def test_factors_are_judged_by_what_they_rebuild():
    a = torch.randn(4, 3, dtype=torch.float64)
    u, s, v = torch.linalg.svd(a, full_matrices=False)
    judge.check_factors("linalg.svd", [-u, s, -v], a)
    with pytest.raises(judge.Wrong, match="product"):
        judge.check_factors("linalg.svd", [-u, s, v], a)
    with pytest.raises(judge.Wrong, match="factor 0 times itself"):
        judge.check_factors("linalg.svd", [2 * u, s / 2, v], a)


def test_places_of_equal_elements_are_free():
    a = torch.tensor([[3, 1, 1], [2, 2, 5]])
    values, places = torch.kthvalue(a, 2, 1)
    judge.check_places([values, torch.tensor([1, 0])], [values, places], a)
    judge.check_places([values, torch.tensor([2, 1])], [values, places], a)
    with pytest.raises(judge.Wrong, match="do not lie"):
        judge.check_places([values, torch.tensor([0, 1])], [values, places], a)
    with pytest.raises(judge.Wrong):
        judge.check_places([values + 1, places], [values, places], a)


def test_eigenvalues_have_no_order():
    eager = list(torch.linalg.eig(torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(3))))
    order = torch.tensor([2, 0, 3, 1])
    ours = judge.in_order_of("linalg.eig", [eager[0][:, order], eager[1][:, :, order]], eager)
    torch.testing.assert_close(ours, eager)


def test_gradients_of_a_traced_program_are_those_of_eager():
    sample = samples("addmm", "float32", "forward")[2]
    module = OperatorModule(operators()["addmm"].op, sample)
    traced = gradient_program(module, module.tensors)
    assert traced is not None
    graph, cotangents = traced
    expected = gradients(module, module.tensors, cotangents)
    torch.testing.assert_close(list(graph(*module.tensors, *cotangents)), expected)
    assert len(expected) == 4


@pytest.mark.parametrize(
    "count, how_many, numbers", [(5, 1, [2]), (5, 2, [0, 4]), (5, None, [0, 1, 2, 3, 4]), (0, 1, [])]
)
def test_samples_are_spread_from_first_to_last(count, how_many, numbers):
    assert chosen(count, how_many) == numbers


def test_records_survive_a_cut_line_and_keep_the_newest(tmp_path):
    case = Case("add", "float32", 0)
    lines = [Record(case, judge.CRASH, "x").to_json(), Record(case, judge.RIGHT).to_json()]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join([*lines, '{"operator": "mu']))
    assert read(path) == [Record(case, judge.RIGHT)]


def test_the_page_counts_and_lists():
    records = [
        Record(Case("add", "float32", 0), judge.RIGHT),
        Record(Case("mul", "float32", 0), judge.UNSUPPORTED, "the model:\n  aten.mul x1: no lowering"),
        Record(Case("sub", "float32", 0), judge.SKIPPED),
    ]
    records += [
        Record(Case("add", "uint8", 0), judge.WRONG_VALUE, "1 is 2"),
        Record(Case("add", "float32", 0, layout="strided", dynamic=True), judge.RIGHT),
    ]
    text = page(records)
    assert "| forward | cpu | float32, else int64, bool | 2 | 1 (50.0 %) | 1 | 0 | 0 |" in text
    assert "| forward | cpu | uint8 | 1 | 0 (0.0 %) | 0 | 1 | 0 |" in text
    assert (
        "| forward, strided inputs, open sizes | cpu | float32, else int64, bool | 1 | 1 (100.0 %) |" in text
    )
    assert "- `mul` forward float32 on cpu: unsupported: aten.mul x1: no lowering" in text
    assert "| `add` | f32, u8 0/1 |" in text
    assert "`matrix_exp` float16: eager's powers" in text
    assert "`randn`: it draws random numbers" in text


def _dies(cases, timeout):
    if cases[0].operator == "crash":
        os.kill(os.getpid(), signal.SIGKILL)  # as SIGSEGV, but pytest prints nothing
    if cases[0].operator == "hang":
        time.sleep(60)
    return [Record(case, judge.RIGHT) for case in cases]


def test_a_crash_and_a_hang_are_records_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setattr("pipeline.tools.conformance.execution.execute", _dies)
    jobs = [[Case(name, "float32", i) for i in range(2)] for name in ("crash", "add", "hang")]
    found = {
        (record.case.operator, record.case.sample): record.status for record in workers.run(jobs, 2, 0.3)
    }
    expected = {"crash": judge.CRASH, "add": judge.RIGHT, "hang": judge.HANG}
    assert found == {(name, i): status for name, status in expected.items() for i in range(2)}


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--ops", "no_such"], "no operator's name matches 'no_such'"),
        (["--ops", "("], "is no regular expression"),
        (["--dtypes", "float31"], "float31: choose from"),
        (["--samples", "few"], "neither a number nor 'all'"),
    ],
)
def test_bad_options(arguments, says):
    done = CliRunner().invoke(conformance, arguments)
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output


def test_a_wrong_decomposition_is_found_and_a_batch_blames_the_right_case(monkeypatch):
    registry.load_families()
    decompositions = registry._DECOMPOSITIONS
    right = decompositions["aten.maximum.default"]
    monkeypatch.setitem(
        decompositions, "aten.maximum.default", lambda a, b: a if a.dim() == 1 else right(a, b)
    )
    dims = [sample.input.dim() for sample in samples("maximum", "float32", "forward")][:4]
    assert 1 in dims and 2 in dims
    statuses = [record.status for record in execute([Case("maximum", "float32", i) for i in range(4)], 300)]
    assert statuses == [judge.WRONG_VALUE if dim == 1 else judge.RIGHT for dim in dims]


FORWARD = """
    add argmax bitwise_left_shift cat cumsum fft.rfft histc i0 index_put linalg.cholesky linalg.solve logsumexp
    masked_fill matmul median nn.functional.avg_pool2d nn.functional.conv2d nn.functional.gelu
    nn.functional.grid_sample nn.functional.interpolate.bilinear nn.functional.layer_norm pow scatter_add searchsorted
    softmax sort var where
"""
BACKWARD = """
    addmm amax cumprod index_select linalg.inv nn.functional.conv2d nn.functional.cross_entropy
    nn.functional.interpolate.bilinear nn.functional.layer_norm nn.functional.max_pool2d
    nn.functional.scaled_dot_product_attention softmax
"""


@pytest.mark.parametrize("kind, names", [("forward", FORWARD), ("backward", BACKWARD)])
def test_a_fixed_slice_is_right(kind, names):
    """One operator of each family, its middle sample, as one program; whatever is not right is compiled again alone."""
    records = execute([_middle(name, kind) for name in names.split()], 200)
    assert {r.case.operator: r.message for r in records if r.status != judge.RIGHT} == {}


def _middle(name: str, kind: str) -> Case:
    (dtype, *_) = first_dtypes(operators()[name])
    return Case(name, dtype, *chosen(len(samples(name, dtype, kind)), 1), kind)


@pytest.mark.parametrize("name", ["sin", "nn.functional.layer_norm", "index_select"])
def test_gradients_just_in_time(name):
    (record,) = execute([_middle(name, "just-in-time")], 200)
    assert (record.status, record.message) == (judge.RIGHT, "")


def test_what_dynamo_leaves_to_eager_is_not_counted_as_right(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    (record,) = execute([_middle("sin", "just-in-time")], 200)
    assert (record.status, record.message) == (judge.IN_EAGER, "all of it")
