"""The benchmark behind docs/accuracy.md: what it measures once, and what it writes from that."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from leafwise.datasets import Dataset
from leafwise.taxonomy import Taxonomy

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import accuracy  # noqa: E402
import accuracy_corpora  # noqa: E402
from accuracy_methods import BOTH, LABELS, Unavailable  # noqa: E402


def line(method, size, draw, value, corpus="newsgroups", **others):
    empty = dict.fromkeys(("accuracy", "new", "ece", "ece_new", "micro_f1", "macro_f1"))
    fields = {"corpus": corpus, "method": method, "size": size, "draw": draw, "seconds": 1.0}
    return {**fields, **empty, "accuracy": value, **others}


def written(tmp_path, lines) -> str:
    results, page = tmp_path / "results.jsonl", tmp_path / "accuracy.md"
    results.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert accuracy.main(["--results", str(results), "--write-only", "--out", str(page)]) == 0
    return page.read_text()


def row(page: str, name: str, section: str) -> list[str]:
    part = page.split(f"## {section}\n")[1].split("\n## ")[0]
    found = next(one for one in part.splitlines() if one.startswith(f"| {name} |"))
    return [cell.strip() for cell in found.split("|")[2:-1]]


WORDS = {
    "sports/hockey": "hockey puck goalie ice skate rink",
    "sports/baseball": "baseball inning pitcher bat glove base",
    "motors/cars": "cars engine wheel brake gear clutch",
    "motors/bikes": "bikes saddle helmet throttle chain fork",
}


def tiny(**settings) -> accuracy_corpora.Corpus:
    """Twelve documents of each of four classes, five words each."""

    def load(data):
        rng = np.random.default_rng(0)
        labels = [label for label in WORDS for _ in range(12)]
        texts = [" ".join(rng.choice(WORDS[label].split(), 5)) for label in labels]
        keywords = {label: words.split()[:1] for label, words in WORDS.items()}
        tree = Taxonomy.from_paths(WORDS, keywords=keywords)
        ids = [str(i) for i in range(len(texts))]
        return Dataset(texts, labels, tree, ids, None, "tiny", "")

    return accuracy_corpora.Corpus("tiny", load, accuracy_corpora.per_class, (0, 2), 2, **settings)


LINES = (
    {"about": "machine", "cores": 2, "machine": "x86_64", "python": "3.11", "numpy": "2"}
    | {"scikit-learn": "1", "leafwise": "0"},
    {"about": "newsgroups", "documents": 14997, "classes": 15, "nodes": 21},
    line(BOTH, 0, 0, 0.7),
    *(line(BOTH, 7, k, x, ece=0.1) for k, x in enumerate((0.8, 0.82))),
    *(line(LABELS, 7, k, x, ece=0.2) for k, x in enumerate((0.75, 0.77))),
    line(BOTH, 20, 0, 0.6),
    line(LABELS, 20, 0, 0.9),
    *(line("NaiveBayes", 7, k, 0.5) for k in range(1)),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return written(tmp_path_factory.mktemp("page"), LINES)


class TestPage:
    def test_cells_are_means_and_the_best_is_bold(self, page):
        assert row(page, BOTH, "15 newsgroups")[:3] == ["0.700", "", "**0.810 ± 0.014**"]
        assert row(page, LABELS, "15 newsgroups")[2] == "0.760 ± 0.014"

    def test_what_was_not_measured_is_empty(self, page):
        cells = row(page, "NaiveBayes", "15 newsgroups")
        assert cells == ["", "", "0.500 (1)", "", "", "", "", "", ""]
        assert "| LinearSVC |" not in page
        assert "## 20 newsgroups\n\nNot measured." in page

    def test_what_was_published_and_aimed_at_stand_below(self, page):
        assert row(page, "T's best", "15 newsgroups")[:3] == ["", "", "0.585"]
        assert row(page, "aim", "15 newsgroups")[0] == "0.740"

    def test_the_corpus_and_the_machine_are_described(self, page):
        assert "14,997 documents in 15 classes" in page
        assert "on 2 cores of x86_64 with Python 3.11, numpy 2, scikit-learn 1" in page
        assert "2 draws." in page

    def test_calibration_has_the_least_in_bold(self, page):
        part = page.split("### Calibration error")[1]
        assert f"| {BOTH} |  |  | **0.100 ± 0.000** |" in part

    def test_it_says_where_both_are_worse_than_either_alone(self, page):
        said = page.split("against either alone")[1]
        assert (
            "Below labels alone by more than a standard error: 1 of 2 comparisons; "
            "15 newsgroups at 20 (-0.300)." in said
        )
        assert "Below keywords alone by more than a standard error: 1 of 2 comparisons" in said
        assert "| 15 newsgroups | 7 | +0.050 ± 0.000 | +0.110 ± 0.010 |" in said

    def test_the_directories_are_a_mean_of_all_eight(self, tmp_path):
        names = [c.name for c in accuracy_corpora.CORPORA if c.group == "directories"]
        lines = [line(BOTH, 0.1, 0, i / 10, corpus=name) for i, name in enumerate(names)]
        page = written(tmp_path, lines)
        assert row(page, BOTH, "Eight web directories")[1] == "0.350"
        assert "Not measured." in written(tmp_path, lines[1:]).split("Eight web")[1][:40]

    def test_plots_stand_beside_the_page_and_are_the_same_each_time(self, tmp_path):
        page = written(tmp_path, LINES)
        picture = re.search(r"!\[.*\]\((.*)\)", page)[1]
        first = (tmp_path / picture).read_bytes()
        written(tmp_path, LINES)
        assert (tmp_path / picture).read_bytes() == first


class TestRun:
    def test_what_is_done_is_not_done_again(self, tmp_path, capsys):
        results = accuracy.Results(tmp_path / "results.jsonl")
        chosen = {"methods": ["labels alone", "naivebayes", "matching", "LinearSVC"]}
        assert accuracy.run([tiny()], results, **chosen, n_draws=1) == 0
        before = results.path.read_text()
        found = [one for one in results if "about" not in one]
        assert {one["method"] for one in found} == {
            "keyword matching", LABELS, "NaiveBayes", "LinearSVC",
        }  # fmt: skip
        assert all(0 < one["accuracy"] <= 1 for one in found if one["size"])
        assert accuracy.run([tiny()], results, **chosen, n_draws=1) == 0
        assert results.path.read_text() == before
        assert accuracy.run([tiny()], results, **chosen, n_draws=2) == 0
        again = results.path.read_text()
        assert again.startswith(before)
        keys = [(o["method"], o["size"], o["draw"]) for o in results if "about" not in o]
        assert len(keys) == len(set(keys)) == len(found) + 3

    def test_parts_have_all_jobs_together_and_none_twice(self):
        corpus = tiny()
        jobs = accuracy.jobs_of(corpus, accuracy.methods_of(corpus), None, None)
        parts = [{job for job in jobs if job.part(3) == k} for k in range(3)]
        assert sum(map(len, parts)) == len(jobs) == len(set.union(*parts))

    def test_every_method_of_a_draw_has_the_same_documents(self):
        corpus = tiny()
        data = corpus.load(None)
        one, two = (corpus.split(data, 2, 1) for _ in range(2))
        assert np.array_equal(one.known, two.known)
        assert len(one.known) == 8
        assert len(one.pool) == len(data) - 8
        assert not np.array_equal(one.known, corpus.split(data, 2, 0).known)

    def test_documents_kept_apart_are_not_given(self, tmp_path):
        corpus = tiny(methods="taxonomy")
        apart = accuracy_corpora.kept_apart(corpus.load(None), 2, 0)
        assert not set(apart.new) & {*apart.known, *apart.pool}
        assert len(apart.new) == 8

    def test_a_failure_is_told_and_the_rest_goes_on(self, tmp_path, monkeypatch, capsys):
        results = accuracy.Results(tmp_path / "results.jsonl")

        def fails(case):
            raise ValueError("no such luck")

        def missing(case):
            raise Unavailable("not installed")

        methods = {
            "bad": accuracy.Method(fails),
            "missing": accuracy.Method(missing),
            "good": accuracy.methods_of(tiny())["NaiveBayes"],
        }
        monkeypatch.setattr(accuracy, "methods_of", lambda corpus: methods)
        assert accuracy.run([tiny()], results, n_draws=1) == 1
        assert [one["method"] for one in results if "about" not in one] == ["good"]
        said = capsys.readouterr().err
        assert "no such luck" in said
        assert "missing is left out: not installed" in said

    def test_an_unknown_corpus_is_refused(self, tmp_path, capsys):
        with pytest.raises(SystemExit):
            accuracy.main(["--results", str(tmp_path / "r"), "--only", "news"])
        assert "expected some of directories" in capsys.readouterr().err
