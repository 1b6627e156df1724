"""The cache of compiled programs: hits only for the very same program, whole entries or none, a bounded size."""

import errno
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import pipeline
from pipeline import cache as cache_module
from pipeline.cache import Cache, find_cache
from pipeline.cli import cli
from pipeline.errors import InputError
from pipeline.program_key import files_named
from pipeline.shape_lib import user_cache

X = torch.arange(8.0).reshape(2, 4)


class Scaled(nn.Module):
    def __init__(self, factor: float = 2.0, size: int = 4) -> None:
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(torch.arange(float(size)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight * self.factor


@pytest.fixture(scope="module")
def vmfb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some artifact."""
    path = tmp_path_factory.mktemp("artifact") / "some.vmfb"
    pipeline.compile(Scaled(), args=(X,)).save(path)
    return path


@pytest.fixture(autouse=True)
def unedited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever edits sources while tests run."""
    monkeypatch.setattr(cache_module, "_sources_digest", lambda: cache_module._SOURCES)


def hits(model: nn.Module, folder: Path, **options: object) -> bool:
    """Compiles with a cache, checks the result; whether the program was there."""
    pipeline.counters(reset=True)
    executable = pipeline.compile(model, args=(X,), cache=folder, **options)
    torch.testing.assert_close(executable(X), model(X))
    found = pipeline.counters()
    assert found.cache_hits + found.cache_misses == 1
    return found.cache_hits == 1


def test_the_same_program_is_compiled_once(tmp_path: Path) -> None:
    assert not hits(Scaled(), tmp_path)
    assert hits(Scaled(), tmp_path)
    assert not hits(Scaled(3.0), tmp_path)  # another graph
    changed = Scaled()
    changed.weight.data += 1
    assert not hits(changed, tmp_path)  # the weights are inside of the program
    assert not hits(Scaled(), tmp_path, weights="external")
    assert hits(changed, tmp_path, weights="external")  # here they are beside it
    assert not hits(Scaled(), tmp_path, iree_args=["--iree-opt-level=O0"])


@pytest.mark.parametrize("form", ["--a={}", "--a=b={}", "--a=b{{c={}}}", "--a={}@entry", "--a=b,{}", "{}"])
def test_a_file_is_found_wherever_an_option_names_it(form: str, tmp_path: Path) -> None:
    file = tmp_path / "a=b, c.mlir"
    file.write_text("before")
    argument = form.format(file)
    before = files_named((argument,))
    assert before is not None
    assert len(before) == 1
    file.write_text("after")
    assert files_named((argument,)) != before


def test_folders_and_files_of_options_are_not_followed(tmp_path: Path) -> None:
    assert files_named((f"--search-path={tmp_path}",)) is None
    assert files_named(("@options.txt",)) is None
    pipeline.compile(
        Scaled(),
        args=(X,),
        cache=tmp_path,
        iree_args=[f"--iree-hal-executable-object-search-path={tmp_path}"],
    )
    assert not list(tmp_path.glob("*.vmfb"))


def test_source_lines_are_no_part_of_a_program(tmp_path: Path) -> None:
    class Moved(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight * self.factor

    assert not hits(Scaled(), tmp_path)
    assert hits(Moved(), tmp_path)


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped"])
def test_a_damaged_entry_is_compiled_again(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not hits(Scaled(), tmp_path)
    (entry,) = tmp_path.iterdir()
    data = bytearray(entry.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 0xFF
    entry.write_bytes({"truncated": data[:middle], "empty": b"", "flipped": bytes(data)}[damage])
    assert not hits(Scaled(), tmp_path)
    assert "damaged program" in caplog.text
    assert hits(Scaled(), tmp_path)


def test_another_programs_entry_is_none(vmfb: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(tmp_path / "cache")
    cache.store("a", vmfb)
    shutil.copyfile(cache.folder / "a.vmfb", cache.folder / "b.vmfb")
    assert cache.fetch("b", tmp_path / "b.vmfb") is None
    assert "another program" in caplog.text
    assert cache.fetch("a", tmp_path / "a.vmfb") is not None


def test_what_users_do_with_their_artifact_changes_no_entry(tmp_path: Path) -> None:
    model, cache = tmp_path / "model.py", tmp_path / "cache"
    model.write_text("import torch\nmodel, example_inputs = torch.nn.ReLU(), (torch.ones(2),)\n")
    for name in ("a.vmfb", "b.vmfb"):
        command = ["compile", str(model), "-o", str(tmp_path / name), "--cache"]
        assert CliRunner(env={"PIPELINE_CACHE": str(cache)}).invoke(cli, command).exit_code == 0
    (entry,) = cache.iterdir()
    before = entry.read_bytes()
    (tmp_path / "b.vmfb").write_bytes(b"something else")
    assert entry.read_bytes() == before


def test_sources_edited_since_they_were_imported_give_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vmfb: Path
) -> None:
    """The key says what this process has imported, which is not what is on disk."""
    Cache(tmp_path).store("a", vmfb)
    monkeypatch.undo()
    folder = Path(cache_module.__file__).parent
    monkeypatch.setattr(cache_module, "_sources", lambda _: [folder / "cache.py"])
    Cache(tmp_path).store("b", vmfb)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.vmfb"]


def test_what_a_killed_writer_left_is_nobodys_entry(vmfb: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    old, new = tmp_path / ".writing-old", tmp_path / ".writing-new"
    for left in (old, new):
        left.write_bytes(vmfb.read_bytes()[:100])
    os.utime(old, (0, 0))
    assert cache.usage().entries == 0
    cache.store("a", vmfb)
    assert not old.exists()
    assert new.exists()  # its writer may be alive
    assert cache.clear().entries == 1
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_costs_the_entry_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache_module.shutil, "copyfileobj", full)
    assert not hits(Scaled(), tmp_path)
    assert "No space left on device" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    # As for root no folder is read-only, one that nobody can write.
    assert not hits(Scaled(), Path("/proc/pipeline"))
    assert "not cached in /proc/pipeline" in caplog.text


def test_entries_are_whole_while_others_write_and_clear(vmfb: Path, tmp_path: Path) -> None:
    folder, end = tmp_path / "cache", time.monotonic() + 1
    wrong: list[BaseException] = []

    def write() -> None:
        while time.monotonic() < end:
            Cache(folder).store("a", vmfb)
            Cache(folder).store("b", vmfb)
            Cache(folder).clear()

    def read(target: Path) -> None:
        try:
            while time.monotonic() < end:
                if Cache(folder).fetch("a", target) is not None:
                    assert target.read_bytes() == vmfb.read_bytes()
                    target.unlink()
        except BaseException as error:
            wrong.append(error)

    work = [write, write, *(lambda i=i: read(tmp_path / f"{i}.vmfb") for i in range(2))]
    threads = [threading.Thread(target=function) for function in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_least_recently_used_go_first(vmfb: Path, tmp_path: Path) -> None:
    size = vmfb.stat().st_size + 1  # and the key
    cache = Cache(tmp_path / "cache", limit=2 * size)
    for i, key in enumerate("ab"):
        cache.store(key, vmfb)
        os.utime(cache.folder / f"{key}.vmfb", (i, i))
    assert cache.fetch("a", tmp_path / "a.vmfb") is not None
    cache.store("c", vmfb)
    assert sorted(path.stem for path in cache.folder.iterdir()) == ["a", "c"]
    assert cache.usage().nbytes == 2 * size


def test_the_environment_says_where_and_how_much(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIPELINE_CACHE", str(tmp_path))
    monkeypatch.setenv("PIPELINE_CACHE_SIZE", "3K")
    found = find_cache(True)
    assert found is not None
    assert (found.folder, found.limit) == (tmp_path, 3072)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIPELINE_CACHE", "~/programs")
    for expanded in (find_cache(True), find_cache("~/programs")):
        assert expanded is not None
        assert expanded.folder == tmp_path / "programs"
    monkeypatch.setenv("PIPELINE_CACHE_SIZE", "much")
    with pytest.raises(InputError, match="PIPELINE_CACHE_SIZE=much: write bytes"):
        find_cache(True)
    monkeypatch.setenv("PIPELINE_CACHE", "off")
    assert find_cache(True) is None
    assert find_cache(False) is None
    assert not user_cache.folder("kernels").parent.is_dir()  # and not a folder of that name


def test_the_command(monkeypatch: pytest.MonkeyPatch, vmfb: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("PIPELINE_CACHE", str(tmp_path))
    shutil.copy(vmfb, tmp_path / "a.vmfb")
    shown = CliRunner().invoke(cli, ["cache", "info"]).output
    assert shown.startswith(f"{tmp_path}: 1 program, ")
    assert "of 4.0 GiB" in shown
    assert "removed 1 program" in CliRunner().invoke(cli, ["cache", "clear"]).output
    assert list(tmp_path.iterdir()) == []
