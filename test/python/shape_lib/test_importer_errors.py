"""What cannot be imported: one clear error with the user's file and line that says what to write instead."""

import math
from pathlib import Path

import pytest

from pipeline.shape_lib.importer import ShapeLibraryError, import_file, import_functions
from pipeline.shape_lib.registry import LibraryFunction, registered, shape_function

HEAD = """from pipeline.shape_lib.registry import shape_function

def helper(a: int):
    return a

def maybe(a: int):
    if a > 0:
        return a

def rest_of(a: list[int]):
    return a

@shape_function("mylib::f")
def f(x: list[int], n: int, k: int | None, t: float) -> list[int]:
"""
FIRST = HEAD.count("\n") + 1

# The body of f; the line in it (from 1) that the error names; a part of the message.
BODIES = [
    ("return {1: 2}", 1, "dictionaries are not supported: use a list"),
    ("y = {1, 2}\nreturn x", 1, "sets are not supported outside `in`: use a list"),
    ("y = lambda: 3\nreturn x", 1, "lambda is not supported: write a function with `def`"),
    ("with open('x'):\n    pass\nreturn x", 1, "`with` is not supported"),
    (
        "try:\n    pass\nexcept ValueError:\n    pass\nreturn x",
        1,
        "`try` is not supported: check with `if` or `assert`",
    ),
    ("if n:\n    def g():\n        pass\nreturn x", 2, "a function inside a function is not supported"),
    ("class A:\n    pass\nreturn x", 1, "classes are not supported"),
    ("global n\nreturn x", 1, "`global` is not supported: pass and return values"),
    ("print(x)\nreturn x", 1, "print is not supported: put values into the message of an assert"),
    ("return x if isinstance(n, int) else []", 1, "isinstance is not supported"),
    ("return list(map(helper, x))", 1, "map is not supported: write a comprehension"),
    ("y, z = divmod(n, 2)\nreturn x", 1, "divmod is not supported: write // and %"),
    ("return set(x)", 1, "sets are not supported: use a list"),
    ("return sorted(x, reverse=True)", 1, "sorted: `reverse=` is not supported"),
    ("return x[n:n, 1]", 1, "`n:n` is not supported"),
    ("x[0:1] = [2]\nreturn x", 1, "assigning to a slice is not supported: build the list with `+`"),
    ("a, *b = x\nreturn b", 1, "`*` on the left of `=` is not supported: take a slice"),
    ("return [*x, 1]", 1, "`*` is supported in calls only"),
    (
        "if (y := n) > 1:\n    return [y]\nreturn x",
        1,
        "`:=` is not supported: assign in a statement of its own",
    ),
    ("for i in x:\n    pass\nelse:\n    return x\nreturn x", 1, "`else` after a loop is not supported"),
    ("while n > 0:\n    n -= 1\nelse:\n    return x\nreturn x", 1, "`else` after a loop is not supported"),
    ("return [n & 1]", 1, "the operator of `n & 1` is not supported"),
    ("return [~n]", 1, "bitwise `~` is not supported"),
    ("return [x @ x]", 1, "lists know `+` with a list and `*` with an int"),
    ("return [n.bit_length()]", 1, "`bit_length` of int is not supported"),
    ("x.push(3)\nreturn x", 1, "`push` of list[int] is not supported: lists know append, extend"),
    ("return [x.size]", 1, "values of shape functions have no attributes"),
    ("return [k + 1]", 1, "computes with int | None: check `is not None` first"),
    ("return [k]", 1, "this is int | None, where int is needed: check `is not None` first"),
    ("return x + k", 1, "lists know `+` with a list"),
    ("return [t]", 1, "this is float, where int is needed"),
    ("return n", 1, "this is int, where list[int] is needed"),
    ("return x[t]", 1, "this is float, where int is needed"),
    ("return [len(n)]", 1, "int has no len"),
    ("for i in n:\n    pass\nreturn x", 1, "int cannot be run over"),
    ("return [n if n is t else 1]", 1, "`is` is supported with None only: write `==`"),
    ("return [1 if n == 'a' else 2]", 1, "compares int with str"),
    ("return [1 if x < x else 2]", 1, "compares list[int] with list[int]"),
    ("y = (1, 2)\nreturn [y[n]]", 1 + 1, "the index of a tuple must be a constant: use a list"),
    ("y = (1, 2)\nreturn [y[2]]", 2, "this tuple has 2 elements"),
    ("y, z = (1, 2, 3)\nreturn x", 1, "3 values for 2 names"),
    ("y = [1, 'a']\nreturn x", 1, "a list of int and str: use a tuple"),
    ("return unknown_name", 1, "unknown_name is not known here"),
    ("return unknown_function(x)", 1, "unknown_function is not known here"),
    ("return helper", 1, "helper can only be called"),
    ("return [helper()]", 1, "helper needs the argument `a`"),
    ("return [helper(1, 2)]", 1, "helper takes 1 arguments"),
    ("return [helper(1, a=2)]", 1, "helper gets `a` twice"),
    ("return [helper(b=2)]", 1, "helper has no argument `b`"),
    ("return [helper(*x)]", 1, "`*` in a call needs a tuple"),
    ("return [helper('a' + 1)]", 1, "computes with str"),
    ("return [maybe(n)]", 1, "this is int | None, where int is needed"),
    ("if n > 1:\n    y = 2\nreturn [y]", 3, "`y` has a value on one path only: give it one before the `if`"),
    (
        "if n > 1:\n    y = 2\nelse:\n    y = 'a'\nreturn [y]",
        5,
        "`y` is int on one path and str on the other",
    ),
    (
        "y = 1\nfor i in x:\n    y = [y]\nreturn x",
        2,
        "`y` is int before the loop and list[int] after a round of it",
    ),
    ("for i in x:\n    y = i\nreturn [y]", 3, "y is not known here"),
    ("if n > 1:\n    return x", 0, "f can end without `return`"),
    ("y: Tensor = x\nreturn y", 1, "a shape function gets a tensor as list[int]"),
    ("y: dict[int, int] = x\nreturn y", 1, "is not one a shape function can have"),
    ("return [f(x, n, k, t)[0]]", 1, "calls itself: write a loop"),
    ("return [2j]", 1, "2j is not supported"),
    ("raise 'x'", 1, "raise needs an exception"),
    ("yield x", 1, "yield is not supported: build a list"),
    ("del x\nreturn x", 1, "del is supported for items of lists only"),
    ("return x if n else k", 1, "is list[int] on one path and int | None on the other"),
    ("y = helper(1) if x else None\nreturn [y]", 2, "this is int | None, where int is needed"),
    # Lists that change, where Python's sharing matters
    ("rows = [x]\nx.append(1)\nreturn rows[0]", 2, "this list lies in another list, which changes with it"),
    (
        "rows = [x, x]\nrows[0].append(1)\nreturn x",
        2,
        "this list lies in another list, which changes with it",
    ),
    ("y = x if n else [1]\ny.append(1)\nreturn x", 2, "this list may be the same as"),
    ("y = rest_of(x)\nif n:\n    y = [1]\ny.append(2)\nreturn x", 4, "this list may be the same as"),
    (
        "rows = []\nrow = [1]\nfor i in x:\n    row.append(i)\n    rows.append(row)\nreturn rows[0]",
        3,
        "in the next round",
    ),
    ("for i in x:\n    x.append(i)\nreturn x", 1, "the list that is run over changes meanwhile"),
    ("y = list(x)\nreturn [y.pop() for i in x]", 2, "a list is changed inside a"),
    ("y = [1]\nz = y.pop() if n else 3\nreturn [z]", 2, "a list is changed inside a"),
]


def problem(path: Path, text: str) -> ShapeLibraryError:
    path.write_text(text)
    with pytest.raises(ShapeLibraryError) as caught:
        import_file(path)
    return caught.value


@pytest.mark.parametrize(("body", "line", "message"), BODIES, ids=lambda value: str(value)[:30])
def test_error_names_line_and_says_what_to_do(body: str, line: int, message: str, tmp_path: Path) -> None:
    indented = "".join(f"    {row}\n" for row in body.split("\n"))
    error = problem(tmp_path / "lib.py", HEAD + indented)
    (found,) = error.problems
    assert message in found.message
    assert found.line == (FIRST - 1 if line == 0 else FIRST + line - 1)
    assert str(error).startswith(f"{tmp_path / 'lib.py'}:{found.line}: ")


FILES = [
    ("def f(:\n", 1, "not valid Python"),
    ("x = 3\n", 1, "there is no shape or dtype function"),
    (
        '@shape_function("relu")\ndef f(x: list[int]) -> list[int]:\n    return x\n',
        2,
        "is not an operator's name",
    ),
    ("@shape_function(NAME)\ndef f(x: list[int]) -> list[int]:\n    return x\n", 2, "NAME is no operator"),
    ("@shape_function()\ndef f(x: list[int]) -> list[int]:\n    return x\n", 2, "needs operators as strings"),
    (
        '@shape_function("a::b")\ndef f(x) -> list[int]:\n    return x\n',
        2,
        "the argument `x` of f needs a type",
    ),
    (
        '@shape_function("a::b")\ndef f(x: "Tensor") -> list[int]:\n    return x\n',
        2,
        "gets a tensor as list[int]",
    ),
    ('@shape_function("a::b")\ndef f(*x: int) -> list[int]:\n    return x\n', 2, "`*args` and `**kwargs`"),
    ('@shape_function("a::b")\ndef f(x: tuple[int, ...]) -> list[int]:\n    return x\n', 2, "tuple[T, U]"),
]


@pytest.mark.parametrize(("text", "line", "message"), FILES, ids=lambda value: str(value)[:30])
def test_files(text: str, line: int, message: str, tmp_path: Path) -> None:
    (found,) = problem(tmp_path / "lib.py", text).problems
    assert message in found.message
    assert found.line == line


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ShapeLibraryError, match=r"nothing.py:1: cannot be read"):
        import_file(tmp_path / "nothing.py")


def test_problems_of_all_functions_at_once(tmp_path: Path) -> None:
    text = "".join(
        f'@shape_function("a::b{i}")\ndef f{i}(x: list[int]) -> list[int]:\n    return unknown{i}\n\n'
        for i in range(3)
    )
    error = problem(tmp_path / "lib.py", text)
    assert [p.line for p in error.problems] == [3, 7, 11]
    assert len(str(error).split("\n")) == 3


def test_errors_in_another_file_name_that_file(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("def half(n: int):\n    return {n}\n")
    text = (
        'from parts import half\n@shape_function("a::b")\ndef f(n: int) -> list[int]:\n    return [half(n)]\n'
    )
    (found,) = problem(tmp_path / "lib.py", text).problems
    assert (Path(found.file).name, found.line) == ("parts.py", 2)


def test_a_function_of_no_operator() -> None:
    def lonely(x: list[int]) -> list[int]:
        return x

    with pytest.raises(
        ShapeLibraryError, match="lonely belongs to no operator: decorate it with @shape_function"
    ):
        import_functions([lonely])


def test_functions_that_are_none() -> None:
    with pytest.raises(TypeError, match="is not a Python function"):
        import_functions([LibraryFunction("test.sqrt", "shape", math.sqrt)])


def test_source_that_is_gone() -> None:
    found: dict = {}
    exec("def gone(x: list[int]) -> list[int]:\n    return x\n", found)
    with pytest.raises(ShapeLibraryError, match="cannot be read"):
        import_functions([LibraryFunction("test.gone", "shape", found["gone"])])


def test_lambdas_have_no_statements() -> None:
    function = lambda x: x  # noqa: E731
    with pytest.raises(ShapeLibraryError, match="define it with `def`"):
        import_functions([LibraryFunction("test.lambda", "shape", function)])


def test_decorators_leave_functions_alone_and_the_later_one_wins() -> None:
    def first(x: list[int]) -> list[int]:
        return x

    def second(x: list[int]) -> list[int]:
        return x[:1]

    assert shape_function("test::twice")(first) is first
    assert shape_function("test.twice.default")(second) is second
    mine = [entry for entry in registered() if entry.operator == "test.twice"]
    assert [(entry.kind, entry.function) for entry in mine] == [("shape", second)]
