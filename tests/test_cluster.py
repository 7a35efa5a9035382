"""Files classified by a real cluster: processes that are killed, rows that are bad, and stores."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import leafwise as lw
from leafwise.exceptions import CorpusError, LeafwiseError, OutputError

distributed = pytest.importorskip("distributed")

import dask  # noqa: E402

from leafwise._cluster import (  # noqa: E402
    Written,
    check_room,
    classify_files,
    connect,
    local_workers,
    lost,
)

WORDS = {
    "animals/cats": "cat kitten purr whisker mouse milk sofa",
    "animals/dogs": "dog puppy bark stick gate postman bone",
    "vehicles/boats": "boat sail harbour wind quay crew mast",
    "vehicles/cars": "car driver lap tyre road engine brake",
}


def made_up(n: int, seed: int) -> list[dict]:
    """Rows of which every fifth has a label."""
    draw = random.Random(seed)
    rows = []
    for i in range(n):
        leaf = draw.choice(list(WORDS))
        words = draw.choices(WORDS[leaf].split(), k=5) + draw.choices(["the", "and", "of"], k=3)
        rows.append({"id": i, "text": " ".join(words), "label": leaf if i % 5 == 0 else None})
    return rows


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [f"{row['id']},{row['text']},{row['label'] or ''}\n" for row in rows]
        path.write_text("id,text,label\n" + "".join(lines))


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, hidden files too."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory) -> Path:
    rows = made_up(600, seed=99)
    model = lw.TaxonomyClassifier(lw.Taxonomy.from_paths(list(WORDS)))
    model.fit([row["text"] for row in rows], [row["label"] for row in rows])
    path = tmp_path_factory.mktemp("model") / "pets.leafwise-model"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def model(model_file):
    return lw.load(model_file)


@pytest.fixture
def on_one_machine(call, model_file, tmp_path):
    """The files of a folder, each as `leafwise classify --model` writes it."""

    def run(docs: Path) -> dict[str, bytes]:
        for path in files_of(docs):
            out = tmp_path / "one" / path
            out.parent.mkdir(parents=True, exist_ok=True)
            assert call("classify", "-m", model_file, docs / path, "-o", out).code == 0
        return files_of(tmp_path / "one")

    return run


@pytest.fixture(scope="module")
def client():
    with connect("local:2") as client:
        yield client


# ---- reaching a cluster -------------------------------------------------------------------------


def test_which_scheduler_is_meant():
    assert local_workers("local:1") == 1
    assert local_workers("local:16") == 16
    assert local_workers("tcp://10.0.0.1:8786") is None
    assert local_workers("tls://scheduler.example.org:8786") is None


@pytest.mark.parametrize(
    "wrong",
    ["local:0", "local:-1", "local:two", "local", "", "10.0.0.1:8786", "tcp://host", "http"],
)
def test_what_is_no_scheduler(wrong):
    message = f'"{wrong}" is no scheduler. Expected tcp://HOST:PORT, or local:N for N processes'
    with pytest.raises(LeafwiseError, match=f"^{re.escape(message)}"):  # noqa: SIM117
        with connect(wrong):
            pass


def test_local_processes_have_one_thread_and_end_with_the_block():
    with connect("local:2") as client:
        pids = set(client.run(os.getpid).values())
        assert len(pids) == 2
        assert os.getpid() not in pids
        assert set(client.nthreads().values()) == {1}
        workers = client.scheduler_info()["workers"].values()
        limits = sum(worker["memory_limit"] for worker in workers)
        assert limits == pytest.approx(distributed.system.MEMORY_LIMIT, rel=0.01)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_nobody_is_there():
    message = r"^No scheduler answers at tcp://127\.0\.0\.1:9: .*1 s.*Start one with: dask schedul"
    with pytest.raises(LeafwiseError, match=message):  # noqa: SIM117
        with connect("tcp://127.0.0.1:9", timeout=1):
            pass


def test_without_dask_it_says_what_to_install():
    code = """
import sys
sys.modules["dask"] = sys.modules["distributed"] = None
from leafwise._cluster import connect
with connect("local:2"):
    pass
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'A cluster needs Dask: pip install "leafwise[dask]"' in ended.stderr.splitlines()[-1]


def test_an_error_of_the_work_is_not_one_of_the_cluster(client):
    with pytest.raises(FileNotFoundError, match="nowhere"), lost(client):
        client.submit(os.stat, "/nowhere/at/all").result()
    with pytest.raises(ZeroDivisionError), lost(client):
        client.submit(divmod, 1, 0).result()


def test_a_task_that_ends_its_workers_is_named():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=60
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        future = client.submit(os._exit, 1, key=("run", "docs/large.csv"))
        message = r"^1 workers ended while they worked on docs/large\.csv\. Most often they have t"
        with pytest.raises(LeafwiseError, match=message), lost(client):
            future.result()


def test_a_worker_that_is_slow_to_come_back_is_not_given_up():
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 ms"}),
        connect("local:2") as client,
    ):
        before = set(client.scheduler_info()["workers"])
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        until = time.monotonic() + 120
        while len(now := set(client.scheduler_info()["workers"])) < 2 or now == before:
            assert time.monotonic() < until, "it has not come back"
            time.sleep(0.05)
        assert len(client.cluster.workers) == 2  # it is not on its way out again


# ---- what is written ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_are_what_one_machine_makes_of_them(ending, model, client, on_one_machine, tmp_path):
    docs = tmp_path / "docs"
    for i, n in enumerate([40, 1, 25, 7]):
        write(docs / f"2024/{i % 2}/part-{i}.{ending}", made_up(n, i))
    said = []
    done = classify_files(model, docs, tmp_path / "out", client=client, on_progress=said.append)
    assert done == Written(4, 73, 0)
    assert [one.n_partitions for one in said] == [1, 2, 3, 4]
    assert said[-1] == done
    assert files_of(tmp_path / "out") == on_one_machine(docs)


def test_settings_of_the_model_and_names_of_columns_are_kept(model_file, call, client, tmp_path):
    rows = "".join(f"{row['text']},{row['label'] or ''}\n" for row in made_up(30, 1))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.tsv").write_text(("words,topic\n" + rows).replace(",", "\t"))
    unsure = lw.load(model_file).set_params(min_confidence=0.9, stop="confident")
    options = {"text": "words", "label": "topic"}
    classify_files(
        unsure, tmp_path / "docs", tmp_path / "out", client=client, corpus_options=options
    )
    call(
        "classify", "-m", model_file, tmp_path / "docs" / "a.tsv", "-o", tmp_path / "one.tsv",
        "--text", "words", "--label", "topic", "--min-confidence", ".9", "--stop",
    )  # fmt: skip
    assert (tmp_path / "out" / "a.tsv").read_bytes() == (tmp_path / "one.tsv").read_bytes()


def test_relative_paths_are_those_of_this_process(model, client, tmp_path, monkeypatch):
    write(tmp_path / "docs" / "a.csv", made_up(10, 1))
    monkeypatch.chdir(tmp_path)  # where the workers are not
    classify_files(model, "docs", "out", client=client)
    assert list(files_of(tmp_path / "out")) == ["a.csv"]
    (tmp_path / "docs" / "a.csv").write_text("id,text\n1,\n")
    with pytest.raises(CorpusError, match=r"^docs/a\.csv, line 2: there is no text in column"):
        classify_files(model, "docs", "again", client=client)


def test_a_store_that_all_workers_reach(model, client, on_one_machine, tmp_path):
    pytest.importorskip("fsspec")
    docs = tmp_path / "docs"
    for i in range(3):
        write(docs / f"x/part-{i}.csv", made_up(20, i))
    (tmp_path / "out").mkdir()
    into = f"dir://sorted::file://{tmp_path}/out"
    classify_files(model, f"simplecache::file://{docs}", into, client=client)
    assert files_of(tmp_path / "out" / "sorted") == on_one_machine(docs)


def test_a_folder_that_is_not_empty_is_refused(model, client, tmp_path):
    write(tmp_path / "docs" / "a.csv", made_up(10, 1))
    with pytest.raises(OutputError, match=r"docs: the folder is not empty\. Empty it, or name a n"):
        classify_files(model, tmp_path / "docs", tmp_path / "docs", client=client)
    assert list(files_of(tmp_path)) == ["docs/a.csv"]


def test_a_folder_within_the_one_that_is_read_is_refused(model, client, tmp_path):
    write(tmp_path / "docs" / "a.csv", made_up(10, 1))
    for docs, out in [
        (tmp_path / "docs", tmp_path / "docs" / "b" / "out"),
        ("memory://d", "memory://d/o"),
    ]:
        with pytest.raises(OutputError, match=r"it is inside .*, which is read"):
            classify_files(model, docs, out, client=client)
    assert list(files_of(tmp_path)) == ["docs/a.csv"]
    classify_files(model, tmp_path / "docs", tmp_path / "docs-sorted", client=client)


def test_workers_that_are_too_large_are_told_before_anything_is_done(model, client, tmp_path):
    write(tmp_path / "docs" / "a.csv", made_up(10, 1))
    with pytest.raises(LeafwiseError, match=r"memory='300MiB' is too little: Python, its libra"):
        classify_files(model, tmp_path / "docs", tmp_path / "out", client=client, memory="300MiB")
    assert not (tmp_path / "out").exists()


def test_a_worker_that_grows_is_not_told_midway(model, tmp_path):
    """What it has room for is reckoned once, so the least that is taken at first is enough."""
    for i in range(30):
        write(tmp_path / "docs" / f"{i}.csv", made_up(50, i))
    with connect("local:1") as client:

        def grow(done: Written) -> None:
            if done.n_partitions == 1:
                client.run(exec, "import builtins; builtins.held = b'x' * (256 << 20)")

        with pytest.raises(LeafwiseError, match=r"memory=1 is too little") as error:
            check_room(client, 1)
        least = re.search("Give at least (.*)[.]", str(error.value))[1]
        done = classify_files(
            model, tmp_path / "docs", tmp_path / "out", client=client, memory=least,
            on_progress=grow,
        )  # fmt: skip
        assert done == Written(30, 1500, 0)
        with pytest.raises(LeafwiseError, match=rf"memory='{least}' is too little: Python, its li"):
            check_room(client, least)  # it has grown


def test_wrong_arguments_of_files(model, client, tmp_path):
    write(tmp_path / "docs" / "a.csv", made_up(10, 1))
    message = "client is a str: expected a distributed.Client, as in: with leafwise.distributed.con"
    with pytest.raises(TypeError, match=message):
        classify_files(model, tmp_path / "docs", tmp_path / "out", client="tcp://10.0.0.1:8786")
    message = (
        r'There is no option "tekst" to read documents\. Did you mean "text"\? Options: text, '
    )
    with pytest.raises(TypeError, match=message):
        classify_files(
            model, tmp_path / "docs", tmp_path / "out", client=client,
            corpus_options={"tekst": "body"},
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["memory://sorted", "simplecache::memory://sorted"])
def test_a_store_within_a_process_is_refused(out, model, call, model_file, client, tmp_path):
    write(tmp_path / "docs" / "a.csv", made_up(10, 1))
    message = (
        f"Cannot write {out}: each worker has a memory:// of its own, which ends with it. Name a "
        "folder, or a store that all of them reach."
    )
    with pytest.raises(OutputError, match=f"^{re.escape(message)}$"):
        classify_files(model, tmp_path / "docs", out, client=client)
    ended = call(
        "classify", tmp_path / "docs", "-m", model_file, "--scheduler", "local:1", "-o", out
    )
    assert (ended.code, ended.err) == (3, f"Error: {message}\n")


# ---- bad rows -----------------------------------------------------------------------------------


def with_bad_rows(folder: Path) -> None:
    """The first file is long; the bad row of the second is found long before that of the first."""
    write(folder / "a.csv", made_up(4000, 1))
    with open(folder / "a.csv", "a") as file:
        file.write("4001,a cat\n")
    (folder / "b.csv").write_text("id,text,label\n1,a cat,\n2,,\n3,a dog,animals/cows\n")
    (folder / "c.csv").write_text("id,text,label\n1,,\n")
    write(folder / "d.csv", made_up(5, 4))
    (folder / "e.csv").write_text("id,text,label\n")


def test_the_first_bad_row_ends_all_as_on_one_machine(model, client, call, model_file, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    with_bad_rows(docs)
    said = call("classify", "-m", model_file, docs / "a.csv", "-o", tmp_path / "a.csv").err
    with pytest.raises(CorpusError) as error:
        classify_files(model, docs, tmp_path / "out", client=client)
    assert said == f"Error: {error.value}\n".replace("skip_bad=True", "--skip-bad")
    assert "a.csv, line 4002: 2 cells where the header has 3 (--skip-bad" in said
    assert not {"a.csv", "b.csv", "c.csv"} & files_of(tmp_path / "out").keys()


def test_files_that_are_whole_after_a_bad_row_are_counted(call, model_file, tmp_path):
    """Those, too, that are done between the bad row and the end."""
    docs, out = tmp_path / "docs", tmp_path / "out"
    write(docs / "a.csv", made_up(100_000, 1))  # is waited for, as its rows come first
    (docs / "b.csv").write_text("id,text,label\n2,,\n")
    for name in "cdef":
        write(docs / f"{name}.csv", made_up(20, 2))
    ended = call("classify", docs, "-m", model_file, "--scheduler", "local:2", "-o", out)
    assert ended.code == 1
    whole = files_of(out).keys()
    assert "a.csv" in whole
    assert ended.err.startswith(
        f"Done, and whole in {out}: {len(whole)} of 6 files. To go on, name the others by a glob, "
        f"and another folder with -o.\nError: {docs}/b.csv, line 2: there is no text in column"
    )


def test_bad_rows_are_listed_in_the_order_of_files(model, client, call, model_file, tmp_path):
    docs, listing = tmp_path / "docs", tmp_path / "bad.csv"
    docs.mkdir()
    with_bad_rows(docs)
    done = classify_files(
        model, docs, tmp_path / "out", client=client,
        corpus_options={"skip_bad": True}, bad_rows=listing,
    )  # fmt: skip
    assert done == Written(5, 4006, 4)
    lines = []
    for name in "abc":
        one = tmp_path / f"{name}-bad.csv"
        out = tmp_path / f"{name}.csv"
        call("classify", "-m", model_file, docs / f"{name}.csv", "-o", out, "--skip-bad",
             "--bad-rows", one)  # fmt: skip
        lines += one.read_text().splitlines()[1:]
        if name != "c":  # which has no good row, and is an error by itself
            assert (tmp_path / "out" / f"{name}.csv").read_bytes() == out.read_bytes()
    assert listing.read_text().splitlines() == ["source,line,reason,raw", *lines]
    assert len(lines) == 4
    header = (tmp_path / "out" / "d.csv").read_text().splitlines()[0] + "\n"
    assert {(tmp_path / "out" / f"{name}.csv").read_text() for name in "ce"} == {header}


def test_no_row_that_can_be_used(model, client, tmp_path):
    for i in range(2):
        path = tmp_path / "docs" / f"{i}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("id,text\n1,\n")
    message = r"Nothing in .*docs can be used: every row is bad \(2\)\."
    with pytest.raises(CorpusError, match=message):
        classify_files(
            model, tmp_path / "docs", tmp_path / "out", client=client,
            corpus_options={"skip_bad": True}, bad_rows=tmp_path / "bad.csv",
        )  # fmt: skip
    assert not (tmp_path / "bad.csv").exists()


# ---- processes that are killed ------------------------------------------------------------------

N_FILES, N_ROWS = 6, 3000


@pytest.fixture
def long_docs(tmp_path) -> Path:
    for i in range(N_FILES):
        write(tmp_path / "docs" / f"part-{i}.csv", made_up(N_ROWS, i))
    return tmp_path / "docs"


@pytest.mark.parametrize("victims", [1, 2])
def test_a_killed_worker_costs_time_and_not_the_result(
    victims, model, long_docs, on_one_machine, tmp_path
):
    """With all of them the model is lost too, and so are files that are half written."""
    out = tmp_path / "out"
    with connect("local:2") as client:
        pids = sorted(client.run(os.getpid).values())
        unfinished = []

        def kill(done: Written) -> None:
            if done.n_partitions == 1:
                for pid in pids[:victims]:
                    os.kill(pid, signal.SIGKILL)
                unfinished.append(N_FILES - sum(one[0] != "." for one in files_of(out)))

        done = classify_files(model, long_docs, out, client=client, on_progress=kill)
        client.wait_for_workers(2)
        now = set(client.run(os.getpid).values())
    assert done == Written(N_FILES, N_FILES * N_ROWS, 0)
    assert unfinished[0] >= victims
    assert not now & set(pids[:victims])
    assert files_of(out) == on_one_machine(long_docs)


@contextmanager
def cluster_of_processes(folder: Path, n_workers: int = 2, first: str = ""):
    """A scheduler and its workers, as they are started on the machines of a cluster.

    `first` is what a worker runs before it is one.
    """
    address = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0",
         "--no-dashboard", "--scheduler-file", address], **quiet,
    )  # fmt: skip
    processes = [scheduler]

    def start_worker() -> None:
        code = f"import sys\n{first}\nfrom distributed.cli.dask_worker import main\nmain()"
        options = ["--nthreads", "1", "--no-dashboard", "--no-nanny"]
        processes.append(subprocess.Popen([sys.executable, "-c", code, url, *options], **quiet))

    try:
        while not address.exists() or not address.read_text().endswith("}"):
            assert scheduler.poll() is None, "the scheduler has not started"
            time.sleep(0.1)
        url = json.loads(address.read_text())["address"]
        for _ in range(n_workers):
            start_worker()
        with distributed.Client(url, set_as_default=False) as client:
            while len(client.nthreads()) < n_workers:
                assert all(one.poll() is None for one in processes), "a worker has not started"
                time.sleep(0.1)
        yield url, scheduler, start_worker
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("first", "has"),
    [
        ("sys.modules['leafwise'] = None", "no leafwise"),
        ("import leafwise; leafwise.__version__ = '0.0.9'", "leafwise 0.0.9"),
    ],
)
def test_workers_need_the_same_leafwise(first, has, tmp_path):
    with cluster_of_processes(tmp_path, 1, first) as (url, *_):
        message = rf"The worker at tcp://.* has {has}, and this machine has {lw.__version__}\. Inst"
        with pytest.raises(LeafwiseError, match=message):  # noqa: SIM117
            with connect(url):
                pass


def test_a_scheduler_that_is_gone_is_said_in_a_sentence(
    model, model_file, long_docs, on_one_machine, tmp_path
):
    out = tmp_path / "out"
    code = """
import os, signal, sys
import leafwise as lw
from leafwise._cluster import classify_files, connect
from leafwise.exceptions import LeafwiseError

url, pid, model, docs, out, bad = sys.argv[1:]
try:
    with connect(url) as client:
        classify_files(
            lw.load(model), docs, out, client=client, bad_rows=bad,
            corpus_options={"skip_bad": True},
            on_progress=lambda done: os.kill(int(pid), signal.SIGKILL),
        )
except LeafwiseError as error:
    print(error)
"""
    with cluster_of_processes(tmp_path) as (url, scheduler, _):
        arguments = [url, scheduler.pid, model_file, long_docs, out, tmp_path / "bad.csv"]
        ended = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
        )
    assert ended.stdout == (
        f"The scheduler at {url} is gone, and what was not done yet is lost. Start it again, and "
        "its workers.\n"
    )
    assert ended.stderr == ""
    assert not (tmp_path / "bad.csv").exists()
    whole = on_one_machine(long_docs)
    found = {name: data for name, data in files_of(out).items() if name[0] != "."}
    assert 1 <= len(found) < N_FILES
    assert found == {name: whole[name] for name in found}


def test_a_scheduler_that_is_gone_ends_a_fit_with_a_sentence(long_docs, tmp_path):
    code = """
import os, signal, sys, threading, time
import leafwise as lw
from leafwise.distributed import connect, fit
from leafwise.exceptions import LeafwiseError

url, pid, docs = sys.argv[1:]
try:
    with connect(url) as client:
        def kill():
            while not client.processing() or not any(client.processing().values()):
                time.sleep(0.01)
            os.kill(int(pid), signal.SIGKILL)
        threading.Thread(target=kill, daemon=True).start()
        fit(lw.WordCounter(), docs, client=client)
        print("fitted")
except LeafwiseError as error:
    print(error)
"""
    with cluster_of_processes(tmp_path) as (url, scheduler, _):
        ended = subprocess.run(
            [sys.executable, "-c", code, url, str(scheduler.pid), str(long_docs)],
            capture_output=True,
            text=True,
        )
    assert ended.stdout == (
        f"The scheduler at {url} is gone, and what was not done yet is lost. Start it again, and "
        "its workers.\n"
    )


# ---- the command --------------------------------------------------------------------------------


def leafwise(*arguments, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "leafwise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_the_command_with_a_model(model_file, on_one_machine, tmp_path):
    docs = tmp_path / "docs"
    for i in range(3):
        write(docs / f"part-{i}.csv", made_up(20, i))
    ended = leafwise(
        "classify", docs, "-m", model_file, "--scheduler", "local:2", "-o", tmp_path / "out",
        "--memory", "2GiB",
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr == f"Wrote 60 documents in 3 files to {tmp_path}/out.\n"
    assert files_of(tmp_path / "out") == on_one_machine(docs)


def test_the_command_learns_from_all_files(call, tmp_path):
    """A node that only the last file has is found, and files without labels are filled in."""
    docs = tmp_path / "docs"
    rows = made_up(200, 3)
    rows.sort(key=lambda row: (row["label"] is not None, row["label"] or ""))
    for i in range(4):
        write(docs / f"part-{i}.csv", rows[50 * i : 50 * (i + 1)])
    with open(docs / "part-1.csv", "a") as file:
        file.write("1,,\n")
    kept, bad = tmp_path / "kept.leafwise-model", tmp_path / "bad.csv"
    ended = call(
        "classify", docs, "--scheduler", "local:1", "-o", tmp_path / "out", "--save-model", kept,
        "--skip-bad", "--bad-rows", bad,
    )  # fmt: skip
    assert ended.code == 0
    assert ended.err.endswith(
        f"Left out 1 bad row; {bad} says why.\nWrote 200 documents in 4 files to {tmp_path}/out.\n"
    )
    assert f"{docs}/part-1.csv,52,there is no text in column" in bad.read_text().replace('"', "")
    assert set(lw.load(kept).classes_) == set(WORDS)
    first = (tmp_path / "out" / "part-0.csv").read_text().splitlines()
    assert {line.split(",")[2] for line in first[1:]} == set(WORDS)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--scheduler", "local:0", "-o", "out"], 2, '--scheduler: "local:0" is no scheduler. Exp'),
        (["--scheduler", "local:2"], 2, "--scheduler writes a file for each that it reads. Name a"),
        (["--scheduler", "local:2", "-o", "docs"], 3, "Cannot write docs: the folder is not empty"),
        (
            ["--scheduler", "local:2", "-o", "docs/out"],
            3,
            "Cannot write docs/out: it is inside doc",
        ),
        (["--scheduler", "local:2", "-o", "out", "--bad-rows", "b.csv"], 2, "--bad-rows lists wha"),
        (["--scheduler", "local:2", "-o", "out", "--resume"], 2, "--resume is for one file."),
        (
            ["--scheduler", "local:2", "-o", "out", "--format", "text"],
            1,
            "Partitions cannot have t",
        ),
    ],
)
def test_wrong_usage(arguments, code, message, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "docs" / "a.csv", made_up(10, 1))
    ended = call("classify", "docs", *arguments)
    assert ended.code == code
    assert ended.err.startswith(f"Error: {message}")
    assert list(files_of(tmp_path)) == ["docs/a.csv"]


def test_the_command_when_nobody_answers(call, tmp_path):
    write(tmp_path / "docs" / "a.csv", made_up(10, 1))
    ended = call(
        "classify", tmp_path / "docs", "--scheduler", "tcp://127.0.0.1:9", "-o", tmp_path / "out"
    )
    assert ended.code == 1
    assert ended.err.startswith("Error: No scheduler answers at tcp://127.0.0.1:9: ")
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_command_waits_for_workers(model_file, on_one_machine, tmp_path):
    docs = tmp_path / "docs"
    write(docs / "part-1.csv", made_up(20, 1))
    command = [sys.executable, "-m", "leafwise", "classify", str(docs), "-m", str(model_file)]
    with cluster_of_processes(tmp_path, 0) as (url, _, start_worker):
        process = subprocess.Popen(
            [*command, "--scheduler", url, "-o", str(tmp_path / "out")],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr.readline() == (
            f"{url} has no workers yet. To start one: dask worker {url}\n"
        )
        start_worker()
        said = process.communicate()[1]
    assert said == f"Wrote 20 documents in 1 file to {tmp_path}/out.\n"
    assert files_of(tmp_path / "out") == on_one_machine(docs)


def test_an_interrupted_command_ends_its_processes(model_file, long_docs, tmp_path):
    command = [sys.executable, "-m", "leafwise", "classify", str(long_docs), "-m", str(model_file)]
    process = subprocess.Popen(
        [*command, "--scheduler", "local:2", "-o", str(tmp_path / "out")],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    out = tmp_path / "out"
    while not list(out.glob("*.csv")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said = process.communicate()[1]
    assert process.returncode == 130
    whole = [name for name in files_of(out) if name[0] != "."]
    assert said == (
        f"Done, and whole in {out}: {len(whole)} of {N_FILES} files. To go on, name the others by "
        "a glob, and another folder with -o.\nInterrupted. No half-written file is left.\n"
    )
    with suppress(ProcessLookupError):
        for _ in range(600):  # the last ones end a little later
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        pytest.fail("processes are left")
    assert files_of(out).keys() == set(whole)
