"""The parent of a warm worker hears of a job's end however late it listens."""

import time

import pytest

from pipeline import warm_workers


def test_a_job_that_ends_before_the_parent_listens(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its two lines are read at once then; the second was lost, and a job of milliseconds met its time limit."""
    worker = warm_workers._WarmWorker()
    send = worker._send

    def send_and_sleep(request: dict) -> None:
        send(request)
        output = tmp_path / "output.txt"
        while not (output.exists() and "job.json" in output.read_text()):
            time.sleep(0.1)
        time.sleep(0.5)

    monkeypatch.setattr(worker, "_send", send_and_sleep)
    try:
        assert worker.run(tmp_path, 2**34, timeout=20) == 1  # for want of a job.json
    finally:
        warm_workers._close_idle()
