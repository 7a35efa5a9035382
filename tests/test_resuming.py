"""Runs that are interrupted and go on, and what is said of how far they are.

Processes are real, and so are the signals that end them.
"""

import csv
import gzip
import json
import multiprocessing
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import leafwise as lw
from leafwise.cli.talking import Pace, duration
from leafwise.corpus import Corpus
from leafwise.corpus_resuming import Unfinished, describe
from leafwise.exceptions import LeafwiseError, OutputError

ROOT = Path(__file__).parent.parent
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}

# ---- runs that go on ----------------------------------------------------------------------------

N_ROWS = 85_000  # nine batches: a run is not over before it is killed


@pytest.fixture(scope="module")
def home(tmp_path_factory, pets, pet_texts, pet_labels):
    """Documents, some of them bad, and a tree and a model for them."""
    folder = tmp_path_factory.mktemp("home")
    pets.save(folder / "tree.yaml")
    draw = random.Random(0)
    words = " ".join(pet_texts).split()
    with open(folder / "docs.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "text", "label"])
        for i in range(N_ROWS):
            label = draw.choice(pet_labels) if i < 40 else ""
            writer.writerow(
                [i, "" if i % 6000 == 5999 else " ".join(draw.choices(words, k=4)), label]
            )
    lw.TaxonomyClassifier(pets).fit(pet_texts, pet_labels).save(folder / "pets.model")
    return folder


@pytest.fixture(scope="module")
def workers():
    """Processes are forked from one that has imported all: they are killed at work, not at that."""
    context = multiprocessing.get_context("forkserver")
    modules = ["leafwise.cli", "leafwise.streams", "leafwise.filling", "leafwise.corpus_resuming"]
    context.set_forkserver_preload([*modules, "leafwise.persistence", "pyarrow.parquet"])
    return context


def command_line(home, arguments) -> None:
    os.chdir(home)
    sys.stderr = open("said", "w")  # noqa: SIM115
    from leafwise.cli import main

    main(arguments)


def n_done(home, output) -> int:
    try:
        return json.loads((home / f"{output}.unfinished" / "state.json").read_text())["documents"]
    except FileNotFoundError:
        return -1


def start(workers, home, arguments):
    process = workers.Process(target=command_line, args=(home, arguments))
    process.start()
    return process


def kill_when(process, home, output, n: int, delay: float) -> None:
    """Kill a run some time after it has written so many documents."""
    until = time.monotonic() + 120
    while n_done(home, output) < n:
        assert process.is_alive()
        assert time.monotonic() < until
        time.sleep(0.005)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def ran(workers, home, arguments) -> str:
    process = start(workers, home, arguments)
    process.join(120)
    said = (home / "said").read_text()
    assert process.exitcode == 0, said
    return said


def content(path: Path):
    if path.suffix == ".parquet":
        return pq.read_table(path)
    return path.read_bytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet"])
def test_a_run_that_is_killed_goes_on(workers, home, ending):
    """Killed at three moments, it ends with what a run that is not interrupted writes."""
    arguments = ["classify", "--model", "pets.model", "docs.csv", "--skip-bad", "--resume"]
    ran(workers, home, [*arguments, "-o", f"whole.{ending}", "--bad-rows", "whole-bad.csv"])
    output = f"killed.{ending}"
    arguments += ["-o", output, "--bad-rows", f"bad-{ending}.csv"]
    draw = random.Random(ending)
    for n in (0, 9_000, 19_000):
        process = start(workers, home, arguments)
        kill_when(process, home, output, n, draw.choice([0, 0.02, 0.1]))
        assert not (home / output).exists()
    # What was half written when it was killed.
    parts = sorted((home / f"{output}.unfinished").glob("rows*"))
    name = f"rows-{len(parts):06}.parquet" if ending == "parquet" else "rows"
    with open(parts[0].parent / name, "ab") as file:
        file.write(b"half a row")
    done = n_done(home, output)
    said = ran(workers, home, arguments)
    assert f"Going on after {done:,} documents." in said
    assert content(home / output) == content(home / f"whole.{ending}")
    bad = (home / f"bad-{ending}.csv").read_text()
    assert bad == (home / "whole-bad.csv").read_text()
    assert bad.count("there is no text in column") == N_ROWS // 6000
    assert not (home / f"{output}.unfinished").exists()


def test_what_is_written_in_parts_is_what_is_written_at_once(workers, home):
    arguments = ["classify", "--model", "pets.model", "docs.csv", "--skip-bad"]
    for ending in ("csv", "jsonl", "parquet", "csv.gz"):
        ran(workers, home, [*arguments, "-o", f"plain.{ending}"])
        ran(workers, home, [*arguments, "-o", f"parts.{ending}", "--resume"])
        plain, parts = content(home / f"plain.{ending}"), content(home / f"parts.{ending}")
        if ending == "csv.gz":
            plain, parts = gzip.decompress(plain), gzip.decompress(parts)
        assert plain == parts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_what_was_learned_is_not_learned_again(workers, home):
    arguments = ["classify", "-t", "tree.yaml", "docs.csv", "--skip-bad", "--memory", "1GiB"]
    whole = ran(workers, home, [*arguments, "-o", "learned.csv"])
    assert "Sorted them over" in whole
    arguments += ["-o", "again.csv", "--resume"]
    kill_when(start(workers, home, arguments), home, "again.csv", 9_000, 0)
    said = ran(workers, home, arguments)
    assert "Sorted them over" not in said
    assert (home / "again.csv").read_bytes() == (home / "learned.csv").read_bytes()


@pytest.fixture
def begun(workers, home, tmp_path):
    """A folder with an output that is half done."""
    for name in ("docs.csv", "tree.yaml", "pets.model"):
        shutil.copy2(home / name, tmp_path / name)
    arguments = [
        "classify",
        "-m",
        "pets.model",
        "docs.csv",
        "--skip-bad",
        "-o",
        "o.csv",
        "--resume",
    ]
    kill_when(start(workers, tmp_path, arguments), tmp_path, "o.csv", 9_000, 0)
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_another_run_does_not_go_on(call, begun, monkeypatch):
    monkeypatch.chdir(begun)
    usual = ("classify", "-m", "pets.model", "docs.csv", "--skip-bad", "-o", "o.csv", "--resume")
    anew = 'Give the same command to go on, or delete the folder to start anew: rm -r "o.csv.unfin'
    other = call(*usual, "--min-confidence", 0.5)
    assert other.code == 1
    assert "--min-confidence was not given, and now it is 0.5. Give the same" in other.err
    assert anew in other.err
    other = call(*usual, "--min-confidence", 0)
    assert "--min-confidence was not given, and now it is 0.0. Give the same" in other.err
    with open("docs.csv", "a") as file:
        file.write("x,one more,\n")
    other = call(*usual)
    assert other.code == 1
    changed = (
        r"documents: the size of DOCS was \d+, and now it is \d+; the date of DOCS was .*, and now "
        r"it is .*\. G"
    )
    assert re.search(changed, other.err)
    shutil.copy2("docs.csv", "other.csv")
    assert "DOCS was " in call(*usual[:3], "other.csv", *usual[4:]).err
    Path("o.csv.unfinished/state.json").write_text("{")
    assert "state.json cannot be read" in call(*usual).err
    shutil.rmtree("o.csv.unfinished")
    assert call(*usual).code == 0


def test_a_full_disk_loses_nothing(home, tmp_path):
    """Files may grow to a size that some batches fit in, and not all; then to any size."""
    resource = pytest.importorskip("resource")
    command = [sys.executable, "-m", "leafwise", "classify", "-m", "pets.model", "docs.csv"]
    command += ["--skip-bad", "-o", "full.csv", "--resume"]
    ended = subprocess.run(
        command,
        cwd=home,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000)),
    )
    assert ended.returncode == 3
    assert ended.stderr.endswith(
        "Error: Cannot write full.csv: File too large. What is done is kept: the same command goes "
        "on from there.\n"
    )
    done = n_done(home, "full.csv")
    assert 0 < done < N_ROWS
    ended = subprocess.run(command, cwd=home, env=ENVIRONMENT, capture_output=True, text=True)
    assert (ended.returncode, f"Going on after {done:,} documents." in ended.stderr) == (0, True)
    subprocess.run([*command[:-2], "at-once.csv"], cwd=home, env=ENVIRONMENT, check=True)
    assert (home / "full.csv").read_bytes() == (home / "at-once.csv").read_bytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_another_model_does_not_go_on(call, begun, monkeypatch, pets, pet_texts, pet_labels):
    monkeypatch.chdir(begun)
    lw.TaxonomyClassifier(pets).fit(pet_texts[1:], pet_labels[1:]).save("pets.model")
    usual = ("classify", "-m", "pets.model", "docs.csv", "--skip-bad", "-o", "o.csv", "--resume")
    other = call(*usual)
    assert other.code == 1
    assert re.search("--model was the model [0-9a-f]+, and now it is the model", other.err)
    assert not Path("o.csv").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_two_runs_do_not_write_one_file(workers, call, begun, monkeypatch):
    pytest.importorskip("fcntl")
    monkeypatch.chdir(begun)
    import fcntl

    usual = ("classify", "-m", "pets.model", "docs.csv", "--skip-bad", "-o", "o.csv", "--resume")
    with open("o.csv.unfinished/lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = call(*usual)
    assert other.code == 3
    assert "Another process is writing o.csv. Wait for it, or end it." in other.err
    Path("o.csv.unfinished/rows").write_bytes(b"less")
    assert re.search(r"rows has 4 bytes, and should have [\d,]+\. Delete", call(*usual).err)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "Interrupted"), (signal.SIGTERM, 143, "Ended from outside")],
)
def test_an_interrupt_says_how_to_go_on(workers, home, number, code, word):
    arguments = [
        "classify",
        "-m",
        "pets.model",
        "docs.csv",
        "--skip-bad",
        "-o",
        "i.csv",
        "--resume",
    ]
    process = start(workers, home, arguments)
    while n_done(home, "i.csv") < 9_000:
        assert process.is_alive()
        time.sleep(0.005)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == code
    said = (home / "said").read_text()
    expected = rf"{word} after [\d,]+ documents\. The same command goes on from there\.\n"
    assert re.fullmatch(expected, said)
    assert "Going on after" in ran(workers, home, arguments)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_a_run_that_is_ended_from_outside_says_so(workers, home, tmp_path):
    for name in ("docs.csv", "pets.model"):
        shutil.copy2(home / name, tmp_path / name)
    home = tmp_path
    arguments = ["classify", "-m", "pets.model", "docs.csv", "--skip-bad", "-o", "ended.csv"]
    process = start(workers, home, arguments)
    while not list(home.glob(".leafwise-*.part")):  # what is written, until it is whole
        assert process.is_alive()
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 143
    said = (home / "said").read_text()
    assert said == "Ended from outside. No half-written file is left.\n"
    assert not list(home.glob(".leafwise-*.part"))
    assert not (home / "ended.csv").exists()


@pytest.fixture
def late_bad(home, tmp_path):
    """Documents of which one in the second batch is bad, and one in the third."""
    shutil.copy2(home / "pets.model", tmp_path / "pets.model")
    with open(tmp_path / "docs.csv", "w") as file:
        file.write("text\n")
        bad = "two,cells\n"
        file.writelines(bad if i in (15_000, 24_000) else f"a cat {i}\n" for i in range(25_000))
    return tmp_path


def test_bad_rows_can_be_left_out_later(call, late_bad, monkeypatch):
    monkeypatch.chdir(late_bad)
    usual = ("classify", "-m", "pets.model", "docs.csv", "-o", "o.csv", "--resume")
    first = call(*usual)
    assert first.code == 1
    assert first.err == (
        "Done, and kept in o.csv.unfinished: 10,000 documents. The same command with --skip-bad "
        "goes on from there.\n"
        "Error: docs.csv, line 15002: 2 cells where the header has 1 (--skip-bad goes on and lists "
        "such rows)\n"
    )
    later = call(*usual, "--skip-bad")
    assert later.code == 0
    assert "Going on after 10,000 documents." in later.err
    assert "Left out 2 bad rows" in later.err
    at_once = call(*usual[:-3], "-o", "at-once.csv", "--skip-bad")
    assert at_once.code == 0
    assert Path("o.csv").read_bytes() == Path("at-once.csv").read_bytes()


def test_rows_that_were_left_out_do_not_come_back(call, late_bad, monkeypatch):
    monkeypatch.chdir(late_bad)
    usual = ("classify", "-m", "pets.model", "docs.csv", "-o", "o.csv", "--resume")
    assert call(*usual).code == 1
    state = Path("o.csv.unfinished/state.json")
    kept = json.loads(state.read_text())
    kept["job"]["--skip-bad"] = True
    state.write_text(json.dumps(kept))
    other = call(*usual)
    assert other.code == 1
    assert "--skip-bad was given, and now it is not given" in other.err


def test_where_nothing_is_done_nothing_is_kept(call, late_bad, monkeypatch):
    monkeypatch.chdir(late_bad)
    Path("docs.csv").write_text("text\na cat\ntwo,cells\n")
    assert call("classify", "-m", "pets.model", "docs.csv", "-o", "o.csv", "--resume").code == 1
    assert not Path("o.csv.unfinished").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_a_model_that_is_gone(workers, call, home, monkeypatch):
    monkeypatch.chdir(home)
    usual = ["classify", "-t", "tree.yaml", "docs.csv", "--skip-bad", "-o", "gone.csv", "--resume"]
    kill_when(start(workers, home, usual), home, "gone.csv", 9_000, 0)
    Path("gone.csv.unfinished/model.leafwise-model").unlink()
    other = call(*usual)
    assert other.code == 3
    assert re.search(
        r"model.leafwise-model is gone. Delete .*gone.csv.unfinished to start", other.err
    )
    shutil.rmtree("gone.csv.unfinished")


def test_a_run_that_ended_just_before_it_cleared_away(call, home, monkeypatch):
    monkeypatch.chdir(home)
    usual = ("classify", "-m", "pets.model", "docs.csv", "--skip-bad", "-o", "w.csv", "--resume")
    kept = {}
    from leafwise.corpus_resuming import Unfinished

    monkeypatch.setattr(Unfinished, "clear", lambda self: kept.update(folder=self.folder))
    assert call(*usual).code == 0
    before = Path("w.csv").read_bytes()
    monkeypatch.undo()
    monkeypatch.chdir(home)
    again = call(*usual)
    assert (again.code, again.err) == (0, "w.csv is whole already.\n")
    assert Path("w.csv").read_bytes() == before
    assert not Path(kept["folder"]).exists()


def test_keys_of_json_that_come_late(workers, tmp_path, home):
    """A run that goes on knows of them what the first one knew."""
    for model in (["-m", "pets.model"], ["-t", "tree.yaml"]):
        for name in ("tree.yaml", "pets.model"):
            shutil.copy2(home / name, tmp_path / name)
        with open(tmp_path / "docs.jsonl", "w") as file:
            for i in range(24_000):
                row = {"text": f"The cat purred {i}"} | ({"late": i} if i > 22_000 else {})
                file.write(json.dumps(row) + "\n")
        arguments = ["classify", *model, "docs.jsonl"]
        ran(workers, tmp_path, [*arguments, "-o", "plain.jsonl"])
        arguments += ["-o", "resumed.jsonl", "--resume"]
        kill_when(start(workers, tmp_path, arguments), tmp_path, "resumed.jsonl", 9_000, 0)
        ran(workers, tmp_path, arguments)
        plain, resumed = content(tmp_path / "plain.jsonl"), content(tmp_path / "resumed.jsonl")
        assert plain == resumed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--resume",), "--resume goes on with a file. Name it: -o sorted.csv"),
        (("--resume", "-o", "docs.csv"), "--resume cannot write over DOCS"),
        (("--resume", "-o", "/dev/null"), "--resume goes on with a file."),
        (("--memory", "10MB"), "--memory '10MB' is too little: "),
        (("--memory", "lots"), "--memory 'lots': expected a number of bytes above 0, or one with"),
    ],
)
def test_wrong_usage(call, home, monkeypatch, options, message):
    monkeypatch.chdir(home)
    done = call("classify", "-m", "pets.model", "docs.csv", *options)
    assert done.code == 2
    assert f"Error: {message}" in done.err


def test_standard_input_cannot_be_read_again(call, home, monkeypatch):
    monkeypatch.chdir(home)
    done = call("classify", "-m", "pets.model", "-", "-o", "x.csv", "--resume", stdin=b"text\na\n")
    assert done.code == 2
    assert "which a pipe cannot give twice. Name a file." in done.err


def test_an_error_before_the_first_row_leaves_no_folder(call, home, monkeypatch):
    monkeypatch.chdir(home)
    before = set(os.listdir())
    done = call("classify", "-t", "tree.yaml", "docs.csv", "-o", "x.csv", "--resume")
    assert done.code == 1
    assert 'docs.csv, line 6001: there is no text in column "text"' in done.err
    assert set(os.listdir()) == before


def test_a_folder_of_documents(call, home, tmp_path, monkeypatch, pet_texts):
    monkeypatch.chdir(home)
    (tmp_path / "cats").mkdir()
    for i, text in enumerate(pet_texts):
        (tmp_path / "cats" / f"{i}.txt").write_text(text)
    assert call("classify", "-m", "pets.model", tmp_path, "-o", "f.csv", "--resume").code == 0
    assert len(Path("f.csv").read_text().splitlines()) == len(pet_texts) + 1


def write(docs, output, meanwhile) -> None:
    """Write documents one by one; something happens after the first."""
    corpus, unfinished = Corpus(docs, batch_size=1), Unfinished(str(output), describe(str(docs)))
    with unfinished.opened(), unfinished.writer(corpus, ["x"]) as rows:
        rows.begin()
        for batch in rows.rest(corpus.batches()):
            if unfinished.n_documents:
                meanwhile()
            rows.write(batch, {"x": [0]})


@pytest.fixture
def folder(tmp_path, pet_texts):
    for name in ("a.txt", "b.txt", "deep/c.txt"):
        path = tmp_path / "docs" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(pet_texts[0])
        os.utime(path, (0, 0))
    return tmp_path / "docs"


def rename(folder):
    (folder / "a.txt").rename(folder / "z.txt")


def move(folder):
    (folder / "a.txt").rename(folder / "deep" / "a.txt")


def trade_sizes(folder):
    """The sum of the sizes and the newest time are what they were."""
    (folder / "a.txt").write_text("a cat")
    (folder / "b.txt").write_text("a c" + "a" * (2 * os.path.getsize(folder / "deep/c.txt") - 8))
    for name in ("a.txt", "b.txt"):
        os.utime(folder / name, (0, 0))


@pytest.mark.parametrize("change", [rename, move, trade_sizes])
def test_other_files_of_a_folder_are_no_run_to_go_on_with(folder, tmp_path, change):
    output = tmp_path / "o.csv"
    with suppress(KeyboardInterrupt):
        write(folder, output, lambda: signal.raise_signal(signal.SIGINT))
    change(folder)
    message = (
        r"this one on other documents: the list of files in DOCS was 3 with the hash [0-9a-f]{16}, "
        r"and now it is 3 with the hash [0-9a-f]{16}\. Give the same command"
    )
    with pytest.raises(LeafwiseError, match=message):
        write(folder, output, lambda: None)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone cannot be set here")
def test_another_time_zone_changes_nothing(folder, monkeypatch):
    try:
        found = []
        for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            found.append(describe(str(folder)))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found[0] == found[1] == found[2]
    assert found[0]["the date of DOCS"] == "1970-01-01 00:00:00.000000000 UTC"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_folder_of_the_output_that_is_removed_meanwhile(folder, tmp_path, ending):
    output = tmp_path / "gone" / f"r.{ending}"
    output.parent.mkdir()
    message = (
        rf"^Cannot write {output}: No such file or directory\. {output}\.unfinished is gone, a"
    )
    with pytest.raises(OutputError, match=message):
        write(folder, output, lambda: shutil.rmtree(output.parent, ignore_errors=True))


# ---- how far it is ------------------------------------------------------------------------------


def test_lines_now_and_then():
    now, said = 0.0, []
    pace = Pace(said.append, every=30, clock=lambda: now)
    for step in range(101):
        now = step * 2.0
        pace("Classifying", step * 10, 1000)
        pace.documents += 1000
    assert said[:2] == [
        "Classifying: 15,000 documents, 15 %, about 3 min left",
        "Classifying: 30,000 documents, 30 %, about 2 min left",
    ]
    assert len(said) == 6
    now += 10
    pace("Learning", 0, None)  # another kind of work: its own clock
    now += 29
    pace("Learning", 10, None)
    assert len(said) == 6


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "1 s"), (42.4, "42 s"), (100, "2 min"), (5300, "88 min"), (9000, "2.5 h")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_a_terminal_shows_the_time_left(home):
    """With a terminal of its own, as a user has it."""
    leader, follower = pty.openpty()
    arguments = ["classify", "-m", "pets.model", "docs.csv", "-o", "t.csv", "--skip-bad"]
    process = subprocess.Popen(
        [sys.executable, "-m", "leafwise", *arguments],
        cwd=home, env=ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "100"}, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    said = b""
    while True:
        try:
            data = os.read(leader, 1 << 16)
        except OSError:  # Linux's end of a terminal
            break
        if not data:
            break
        said += data
    os.close(leader)
    assert process.wait() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode())
    assert re.search(r"Classifying\W+\d+%\s+\d:\d\d:\d\d", plain)
