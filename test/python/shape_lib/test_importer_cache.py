"""Imported libraries are cached by the content of everything that they were made from."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.shape_lib import user_cache
from pipeline.shape_lib.importer import ShapeLibraryError, cache, import_file, imports

LIBRARY = """
from parts import grown
from pipeline.shape_lib.registry import shape_function

@shape_function("test::cached")
def cached(x: list[int]) -> list[int]:
    return [grown(x[0])]
"""
PARTS = "def grown(n: int):\n    return n + {by}\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIPELINE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "parts.py").write_text(PARTS.format(by=11))
    (folder / "library.py").write_text(LIBRARY)
    return folder / "library.py"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were imported rather than found in the cache."""
    found: list[Path] = []
    original = imports._import_file

    def count(path: Path, *rest: object) -> str:
        found.append(path)
        return original(path, *rest)

    monkeypatch.setattr(imports, "_import_file", count)
    return found


def entries() -> list[Path]:
    return sorted(user_cache.folder("shape_lib").glob("*"))


def test_the_second_import_is_read(library: Path, made: list[Path]) -> None:
    first = import_file(library)
    assert import_file(library) == first
    assert len(made) == 1
    assert [path.suffix for path in entries()] == [".json"]


def test_a_change_in_an_imported_file_counts(library: Path, made: list[Path]) -> None:
    before = import_file(library)
    library.with_name("parts.py").write_text(PARTS.format(by=22))
    after = import_file(library)
    assert "value = 11" in before
    assert "value = 22" in after
    assert len(made) == 2
    library.with_name("parts.py").write_text(PARTS.format(by=11))
    assert import_file(library) == before


def test_a_file_that_now_is_found_first_counts(library: Path) -> None:
    """`parts` was found as parts.py; a package of that name wins once there is no such file."""
    import_file(library)
    library.with_name("parts.py").unlink()
    library.with_name("parts").mkdir()
    (library.parent / "parts" / "__init__.py").write_text(PARTS.format(by=33))
    assert "value = 33" in import_file(library)


def test_a_file_that_appears_counts(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A module that was found elsewhere is shadowed by a new file beside the library, as for scripts."""
    installed = tmp_path / "installed"
    installed.mkdir()
    library.with_name("parts.py").rename(installed / "parts.py")
    monkeypatch.syspath_prepend(installed)
    assert "value = 11" in import_file(library)
    library.with_name("parts.py").write_text(PARTS.format(by=44))
    assert "value = 44" in import_file(library)


def test_another_importer_makes_its_own(
    library: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import_file(library)
    monkeypatch.setattr(cache, "_version", lambda: "another")
    import_file(library)
    assert len(made) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"digests": 3}', '{"digests": {}}', "\0\xff"])
def test_a_damaged_entry_is_made_again(content: str, library: Path, made: list[Path]) -> None:
    text = import_file(library)
    (entry,) = entries()
    entry.write_text(content, encoding="latin-1")
    assert import_file(library) == text
    assert len(made) == 2
    assert import_file(library) == text
    assert len(made) == 2


def test_a_folder_that_cannot_be_written_is_done_without(
    library: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("PIPELINE_CACHE", str(blocked))
    assert import_file(library) == import_file(library)
    assert len(made) == 2
    assert blocked.read_text() == ""


def test_errors_are_not_cached(library: Path) -> None:
    library.with_name("parts.py").write_text("def grown(n: int):\n    return {n}\n")
    for _ in range(2):
        with pytest.raises(ShapeLibraryError, match=r"parts.py:2"):
            import_file(library)
    library.with_name("parts.py").write_text(PARTS.format(by=55))
    assert "value = 55" in import_file(library)


WRITER = """
import sys
from pipeline.shape_lib import user_cache
path = user_cache.folder("shape_lib") / "shared.json"
for round_ in range(60):
    user_cache.write(path, sys.argv[1].encode() * 200_000)
    found = user_cache.read(path)
    assert found is not None and len(set(found)) == 1 and len(found) == 200_000, "half a file"
"""


def test_two_writers(library: Path) -> None:
    """Whole files only: a reader sees the one or the other."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, name], env=environment, stderr=subprocess.PIPE, text=True
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    assert [path.name for path in entries()] == ["shared.json"]


def test_reading_is_faster_than_importing(library: Path) -> None:
    library.write_text(LIBRARY + "".join(f"\ndef unused{i}(x: int):\n    return x\n" for i in range(10)))
    functions = "".join(
        f'\n@shape_function("test::f{i}")\ndef f{i}(x: list[int]) -> list[int]:\n    return x[1:] + [max(x)]\n'
        for i in range(200)
    )
    library.write_text(library.read_text() + functions)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        import_file(library)
        times.append(time.perf_counter() - start)
    assert min(times[1:]) < times[0] / 2
