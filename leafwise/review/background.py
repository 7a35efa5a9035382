"""Processes that fit and grow beside the one that people work with: when, and what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import leafwise
from leafwise.store import Project
from leafwise.store.records import Run

_TICK = 0.25  # seconds between looks
_SETTLED = 1.0  # seconds without another edit or import, before a run takes note
_COUNT_EVERY = 5.0  # seconds between counts of documents: others may add some
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("NUMBA", "OMP", "OPENBLAS", "MKL")}


class Status(NamedTuple):
    """What happens in the background.

    Attributes
    ----------
    state : {"idle", "running", "failed", "empty"}
        "failed": what ran last; "empty": there is no tree or no document, so no model either.
    kind : {"refit", "grow", ""}
    step, share, seconds : what it is doing, how much is done, and since when
    message : why it failed
    model_labels : labelled documents that the last run knew
    new_labels : answers since then
    has_model : whether there is a model that suggests nodes
    """

    state: str
    kind: str
    step: str
    share: float
    seconds: float
    message: str
    model_labels: int
    new_labels: int
    has_model: bool


class _Seen(NamedTuple):
    """What there was when a run began."""

    answer: int
    n_documents: int
    tree: int


class Job:
    """A process that refits a project or, given one, grows a draft."""

    def __init__(self, path: str, draft: int | None = None) -> None:
        self.draft = draft
        self.began = time.monotonic()
        # A file, since a pipe that nobody reads would stop it. `ending` closes it.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        package = str(Path(leafwise.__file__).parent.parent)
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [
            sys.executable,
            "-m",
            "leafwise.review.refitting",
            path,
            "--parent",
            str(os.getpid()),
        ]
        self.process = subprocess.Popen(
            command if draft is None else [*command, "--grow", str(draft)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C is for the parent, which ends it
        )

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def stop(self) -> None:
        self.process.kill()  # it may be, at any moment
        self.process.wait()

    def ending(self) -> str:
        """Say how it ended, in words; closes what it wrote."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        self._errors.close()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        code = self.process.returncode
        how = f"signal {-code}" if code < 0 else f"status {code}"
        return f"it ended with {how}{': ' if last else ''}{last}"


class Background:
    """Has a project's model fitted anew when there is reason to, and trees grown.

    Parameters
    ----------
    project : Project
    refit_after : answers that are reason enough; without a model, one is
    has_model : says whether there is one
    on_run : called when a run has come to its end
    on : whether it all happens by itself; without, each job is waited for

    Attributes
    ----------
    soon : bool
        Whether a run is wanted, however few answers there are.
    """

    def __init__(
        self,
        project: Project,
        refit_after: int,
        has_model: Callable[[], bool],
        on_run: Callable[[], None],
        on: bool,
    ) -> None:
        self.soon = False
        self._project = project
        self._refit_after = refit_after
        self._has_model, self._on_run, self._on = has_model, on_run, on
        self._lock = threading.RLock()
        self._job: Job | None = None
        self._drafts: list[int] = []  # to be grown
        self._message = ""
        self._seen: _Seen | None = None
        self._changed: tuple[tuple[int, int], float] | None = None  # since when it is like that
        self._counted = (0, -_COUNT_EVERY)  # documents, and when
        self._run = self._last_run()  # that on_run knows of
        self._wake, self._closed = threading.Event(), threading.Event()
        self._tidy()
        self._watcher = threading.Thread(target=self._watch, name="leafwise", daemon=True)
        if on:
            self._watcher.start()

    def close(self) -> None:
        self._closed.set()
        self._wake.set()
        with self._lock:
            if self._job is not None:
                self._job.stop()
                self._collect(self._job)
        if self._on:
            self._watcher.join()

    def wake(self) -> None:
        """Look now whether there is something to do."""
        self._wake.set()

    def refit(self) -> bool:
        """Start a run; False where something is running already."""
        with self._lock:
            if self._closed.is_set() or self._job is not None:
                return False
            self._start(None)
        return True

    def grow(self, draft: int) -> None:
        """Grow a draft, after what is running."""
        with self._lock:
            self._drafts.append(draft)
            if not self._on:
                self._start(self._drafts.pop(0))
        self.wake()

    def status(self) -> Status:
        run = self._project.runs.current()
        labels = 0 if run is None else run.n_labels
        new = self._project.labels.last() - (0 if run is None else run.last_answer)
        known = (labels, new, self._has_model())
        job, at = self._job, self._project.runs.running()
        if job is not None and job.draft is not None:
            seconds = time.monotonic() - job.began
            return Status("running", "grow", "Growing", 0.0, seconds, "", *known)
        if job is not None or at is not None:  # the latter may be another program's
            step, share = ("Starting", 0.0) if at is None else (at.step, at.share)
            seconds = 0.0 if job is None else time.monotonic() - job.began
            return Status("running", "refit", step, share, seconds, "", *known)
        state = "failed" if self._message else "idle"
        if run is None and self._is_empty():
            state = "empty"
        return Status(state, "", "", 0.0, 0.0, self._message, *known)

    # ---- when ----

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._wake.wait(_TICK)
            self._wake.clear()
            try:
                with self._lock:
                    self._look()
            except Exception as error:  # a full disk, say: it may pass
                if self._closed.wait(_COUNT_EVERY):
                    return
                self._message = str(error)

    def _look(self) -> None:
        if self._closed.is_set():
            return
        if self._job is not None:
            if self._job.is_over:
                self._collect(self._job)
        elif self._drafts:
            self._start(self._drafts.pop(0))
        elif self._last_run() != self._run:  # another program's
            self._take_note(self._project.runs.current())
        elif self._is_due() and self._project.runs.running() is None:
            self._start(None)

    def _last_run(self) -> int:
        run = self._project.runs.current()
        return 0 if run is None else run.id

    def _take_note(self, run: Run | None) -> None:
        """Take a run that came to its end."""
        assert run is not None
        self._message = ""
        self._seen = _Seen(run.last_answer, run.n_documents, run.tree)
        self._counted = (0, -_COUNT_EVERY)  # to be compared with it
        self._on_run()
        self._run = run.id

    def _is_due(self) -> bool:
        now = self._now()
        if not now.n_documents or len(self._project.tree.taxonomy) < 2:
            return False
        seen, (state, since) = self._seen, self._changed or ((-1, -1), 0.0)
        if state != now[1:]:
            self._changed = (now[1:], time.monotonic())
            since = time.monotonic()
        if seen is None or self.soon:
            return True
        if seen[1:] != now[1:]:
            return time.monotonic() - since >= _SETTLED
        return now.answer - seen.answer >= (self._refit_after if self._has_model() else 1)

    def _now(self) -> _Seen:
        n_documents, at = self._counted
        if time.monotonic() - at >= _COUNT_EVERY:
            n_documents = self._project.documents.count()
            self._counted = (n_documents, time.monotonic())
        return _Seen(self._project.labels.last(), n_documents, self._project.tree.version)

    def _is_empty(self) -> bool:
        return len(self._project.tree.taxonomy) < 2 or not self._project.documents.count()

    # ---- jobs ----

    def _tidy(self) -> None:
        """Take note of the last run, and end what a process left that is gone."""
        last = self._project.runs.last()
        if last is not None and last.state == "running" and self._project.runs.running() is None:
            self._project.runs.stop(last.id)
        for draft in self._project.drafts.open():
            if draft.state == "running":
                self._project.drafts.fail(draft.id, "Growing was interrupted: start it again.")
        if last is not None and last.state == "failed":
            self._message = "".join(last.report[:1])
        if last is not None and last.state in ("done", "failed"):
            self._seen = _Seen(last.last_answer, last.n_documents, last.tree)

    def _start(self, draft: int | None) -> None:
        if draft is None:
            self._seen, self._message, self.soon = self._now(), "", False
        self._job = Job(self._project.path, draft)
        if not self._on:
            self._job.process.wait()
            self._collect(self._job)

    def _collect(self, job: Job) -> None:
        """Take note of what came of a job that is over; until then it counts as running."""
        try:
            how = job.ending()
            if job.draft is None:
                self._take_run(how, self._project.runs.of_process(job.process.pid))
            else:  # says nothing of one that has ended well, or failed for a reason of its own
                self._project.drafts.fail(job.draft, f"Growing was interrupted: {how}.")
        finally:
            self._job = None

    def _take_run(self, how: str, run: Run | None) -> None:
        if run is not None and run.state == "running":  # it was killed
            self._project.runs.stop(run.id)
        if run is not None and run.state == "done":
            self._take_note(run)
        elif run is not None and run.state == "failed":
            self._message = "".join(run.report[:1])
            self._seen = _Seen(run.last_answer, run.n_documents, run.tree)
        elif not self._closed.is_set() and self._project.runs.running() is None:
            self._message = f"The fit was interrupted: {how}."
