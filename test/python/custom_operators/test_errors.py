"""Bad declarations: one clear error each, at the declaration, that names the operator, the argument and what to do."""

import re
import textwrap

import pytest
import torch
from torch import Tensor

import pipeline
from pipeline.dialect_passes.custom_operators.errors import DeclarationError
from pipeline.errors import EXIT_USAGE, exit_code


def no_hint(x, y: Tensor) -> Tensor: ...
def unknown_hint(x: "Tensr") -> Tensor: ...  # noqa: F821  # type: ignore[name-defined]
def unsupported(x: Tensor, y: dict) -> Tensor: ...
def nested(x: list[list[Tensor]]) -> Tensor: ...
def bare_list(x: list) -> Tensor: ...
def fixed_tuple(x: Tensor, y: tuple[int, int]) -> Tensor: ...
def parameter(x: torch.nn.Parameter) -> Tensor: ...
def two_types(x: Tensor, y: int | str) -> Tensor: ...
def star(*xs: Tensor) -> Tensor: ...
def double_star(x: Tensor, **kwargs: int) -> Tensor: ...
def positional_only(x: Tensor, /) -> Tensor: ...
def keyword_tensor(*, x: Tensor) -> Tensor: ...
def no_return(x: Tensor): ...
def wrong_return(x: Tensor) -> dict[str, Tensor]: ...
def number_return(x: Tensor) -> int: ...
def tuple_of_one(x: Tensor) -> tuple[Tensor]: ...
def optional_return(x: Tensor) -> Tensor | None: ...
def nothing(x: Tensor) -> None: ...
def wrong_default(x: Tensor, n: int = 1.5) -> Tensor: ...  # type: ignore[assignment]
def bool_default(x: Tensor, n: int = True) -> Tensor: ...
def none_default(x: Tensor, n: int = None) -> Tensor: ...  # type: ignore[assignment]  # noqa: RUF013
def tensor_default(x: Tensor, ws: list[Tensor] = ()) -> Tensor: ...  # type: ignore[assignment]
def infinite(x: Tensor, limit: float = float("inf")) -> Tensor: ...
def no_list(x: Tensor, ns: list[int] = 3) -> Tensor: ...  # type: ignore[assignment]
def fine(x: Tensor, n: int = 1) -> Tensor: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_hint, "argument 'x' has no type hint; choose from Tensor"),
        (unknown_hint, "argument 'x' has the hint 'Tensr', which cannot be evaluated (NameError"),
        (unsupported, "argument 'y' has the hint dict, which is not supported; choose from Tensor"),
        (nested, "argument 'x' has the hint list[list[torch.Tensor]], which is not supported"),
        (bare_list, "argument 'x' has the hint list, which is not supported: say what it is a list of"),
        (
            fixed_tuple,
            "argument 'y' has the hint tuple[int, int], which is not supported: an operator takes lists",
        ),
        (
            parameter,
            "argument 'x' has the hint Parameter, which is not supported: a parameter is passed as a Tensor",
        ),
        (two_types, "argument 'y' has the hint int | str, which is not supported"),
        (star, "'*xs: torch.Tensor' is variadic positional; an operator has a fixed list of named arguments"),
        (double_star, "'**kwargs: int' is variadic keyword"),
        (positional_only, "'x: torch.Tensor' is positional-only"),
        (
            keyword_tensor,
            "argument 'x' is a keyword-only Tensor, which torch does not differentiate; move it",
        ),
        (no_return, "the return value has no type hint; write -> Tensor"),
        (wrong_return, "the return value has the hint dict[str, torch.Tensor], which is not supported"),
        (
            number_return,
            "the return value has the hint int, which is not supported: return a tensor without dim",
        ),
        (tuple_of_one, "the return value is a tuple of one; write -> Tensor"),
        (optional_return, "the return value has the hint torch.Tensor | None, which is not supported"),
        (nothing, "it returns nothing and changes nothing"),
        (wrong_default, "argument 'n' has the default 1.5, a float, where its hint wants int"),
        (bool_default, "argument 'n' has the default True, a bool, where its hint wants int"),
        (none_default, "argument 'n' is None by default, which its hint does not allow; write Optional[...]"),
        (
            tensor_default,
            "argument 'ws' holds tensors, whose only default is None; write Optional[...] = None",
        ),
        (infinite, "argument 'limit' has the default inf, which torch's schemas cannot say"),
        (no_list, "argument 'ns' is a list, but its default is 3"),
    ],
)
def test_functions_that_are_no_operator(function, message):
    with pytest.raises(DeclarationError, match=re.escape(message)) as caught:
        pipeline.op("errors::bad")(function)
    assert str(caught.value).startswith("errors::bad: ")
    assert exit_code(caught.value) == EXIT_USAGE
    assert not hasattr(torch.ops.errors, "bad")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("swiglu", "'swiglu' is no name for an operator: write a namespace of your own and a name"),
        ("a::b::c", "'a::b::c' is no name for an operator"),
        ("mylib::swiglu.default", "is no name for an operator"),
        ("my-lib::x", "is no name for an operator"),
        (fine, "is no name for an operator"),
        ("aten::swiglu", "aten::swiglu: the namespace 'aten' belongs to torch"),
    ],
)
def test_names(name, message):
    with pytest.raises(DeclarationError, match=re.escape(message)):
        pipeline.op(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mutates_args": ("cache",)}, "mutates_args names 'cache', which is no argument; it has x, n"),
        ({"mutates_args": "x"}, 'mutates_args is a tuple of names: write mutates_args=("x",)'),
        ({"mutates_args": ("n",)}, "argument 'n' is named in mutates_args, but is no Tensor"),
        ({"gradient": "reuse"}, "gradient='reuse' is unknown; choose from recompute, save, none"),
    ],
)
def test_options(options, message):
    with pytest.raises(DeclarationError, match=re.escape(message)):
        pipeline.op("errors::options", **options)(fine)


def test_what_is_no_function():
    with pytest.raises(
        DeclarationError, match=r"errors::x: @pipeline\.op declares a function, and got a ReLU"
    ):
        pipeline.op("errors::x")(torch.nn.ReLU())


def test_a_name_that_another_library_has():
    torch.library.custom_op("errors::taken", mutates_args=())(fine_for_torch)
    with pytest.raises(DeclarationError, match="torch already has an operator of this name"):
        pipeline.op("errors::taken")(fine)
    torch.testing.assert_close(torch.ops.errors.taken(torch.ones(1)), torch.full((1,), 2.0))


def fine_for_torch(x: Tensor) -> Tensor:
    return x + 1


SOURCE = """
    import pipeline
    from torch import Tensor

    @pipeline.op("errors::twice")
    def f(x: Tensor) -> Tensor:
        return x * {factor}
"""


def run_file(path, factor):
    path.write_text(textwrap.dedent(SOURCE.format(factor=factor)))
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": path.stem})


def test_a_name_declared_in_two_files(tmp_path):
    run_file(tmp_path / "one.py", 2)
    with pytest.raises(DeclarationError) as caught:
        run_file(tmp_path / "two.py", 3)
    assert (
        f"errors::twice is declared twice: at {tmp_path / 'one.py'}:5 and at {tmp_path / 'two.py'}:5"
        in str(caught.value)
    )
    torch.testing.assert_close(torch.ops.errors.twice(torch.ones(1)), torch.full((1,), 2.0))
    run_file(tmp_path / "one.py", 5)  # edited and loaded again
    torch.testing.assert_close(torch.ops.errors.twice(torch.ones(1)), torch.full((1,), 5.0))


def test_two_functions_of_one_file_with_one_name():
    @pipeline.op("errors::copied")
    def first(x: Tensor) -> Tensor:
        return x

    with pytest.raises(DeclarationError, match="errors::copied is declared twice"):

        @pipeline.op("errors::copied")
        def second(x: Tensor) -> Tensor:
            return x


@pytest.fixture
def operator():
    @pipeline.op("errors::operator")
    def operator(x: Tensor, ys: list[Tensor], n: int = 1) -> Tensor:
        return x

    return operator


@pytest.mark.parametrize(
    ("give", "function", "message"),
    [
        (
            "shape",
            lambda x: x,
            "the shape function <lambda>(x) must take the operator's arguments: def <lambda>(x, ys, n)",
        ),
        ("shape", lambda x, y, n: x, "the shape function"),
        (
            "dtype",
            lambda x, ys, n: x,
            "must take the operator's arguments: def <lambda>(x_rank_dtype, ys_rank_dtype, n)",
        ),
        (
            "fake",
            lambda x: x,
            "the fake kernel <lambda>(x) must take the operator's arguments: def <lambda>(x, ys, n)",
        ),
        ("backward", lambda: 0, "its first parameter takes the gradient of the result"),
        ("backward", lambda *grads: 0, "its first parameter takes the gradient of the result"),
        ("backward", lambda grad, z: 0, "'z' is no argument of the operator; it has x, ys, n, and `output`"),
    ],
)
def test_what_the_author_gives(operator, give, function, message):
    with pytest.raises(DeclarationError, match=re.escape(message)) as caught:
        getattr(operator, give)(function)
    assert str(caught.value).startswith("errors::operator: ")


def test_a_backward_that_contradicts_the_declaration():
    @pipeline.op("errors::saved", gradient="save")
    def saved(x: Tensor) -> Tensor:
        return x

    with pytest.raises(DeclarationError, match='contradicts gradient="save"'):
        saved.backward(lambda grad: grad)

    @pipeline.op("errors::changes", mutates_args=("x",))
    def changes(x: Tensor) -> None: ...

    with pytest.raises(DeclarationError, match="takes its gradient from its meaning"):
        changes.backward(lambda grad: grad)


def test_eager_without_a_device(operator):
    with pytest.raises(DeclarationError, match="eager names the devices it is for"):
        operator.eager()


def test_eager_with_other_parameters(operator):
    with pytest.raises(DeclarationError, match=r"errors::operator: the implementation .* must take"):
        operator.eager("cuda")(lambda x: x)
