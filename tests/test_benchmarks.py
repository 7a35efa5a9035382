"""The benchmark behind docs/accuracy.md: what it measures once, and what it writes from that."""

import json
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from leafwise.datasets import Dataset
from leafwise.metrics import expected_calibration_error
from leafwise.taxonomy import Taxonomy

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import accuracy  # noqa: E402
import accuracy_calibration  # noqa: E402
import accuracy_corpora  # noqa: E402
import peers  # noqa: E402
import peers_page  # noqa: E402
import scale  # noqa: E402
import scale_page  # noqa: E402
from accuracy_methods import BOTH, LABELS, Unavailable  # noqa: E402
from measuring import Results, fit_growth  # noqa: E402
from peers_methods import PARTS  # noqa: E402


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

    def test_each_directory_stands_beside_the_best_other_method(self, tmp_path):
        lines = [
            *(line(BOTH, 0.1, k, x, corpus="directory-osint") for k, x in enumerate((0.5, 0.52))),
            *(line(LABELS, 0.1, k, x, corpus="directory-osint") for k, x in enumerate((0.3, 0.3))),
            *(
                line("LinearSVC", 0.1, k, x, corpus="directory-osint")
                for k, x in enumerate((0.4, 0.4))
            ),
            line("NaiveBayes", 0.1, 0, 0.2, corpus="directory-osint"),
            # A section has a table only where all eight are measured.
            *(
                line(BOTH, 0.1, k, 0.5, corpus=c.name)
                for c in accuracy_corpora.CORPORA
                if c.group == "directories" and c.name != "directory-osint"
                for k in range(2)
            ),
        ]
        part = written(tmp_path, lines).split("### Each directory beside the best other")[1]
        assert (
            "| osint | 10 % | 0.510 ± 0.014 | 0.300 ± 0.000 | LinearSVC 0.400 | "
            "+0.110 ± 0.010 | -0.100 ± 0.000 |" in part
        )

    def test_calibration_is_beside_what_chance_has_of_it(self, tmp_path):
        bins = [[(2, 0.5, 1.0), (10, 0.9, 0.9)], [(2, 0.5, 0.0), (10, 0.9, 0.8)]]
        lines = [line(BOTH, 7, k, 0.8, bins=one, bins_new=None) for k, one in enumerate(bins)]
        page = written(tmp_path, lines)
        # Two documents at .5 are off by .5 on average; ten at .9 by 20 x .1 x P(10), .9^10.
        chance = (2 * 0.25 + 20 * 0.1 * 0.9**10) / 12
        cells = [f"{x:.3f}" for x in ((1 / 12 + 2 / 12) / 2, chance, 0.5 / 12)]
        assert f"| newsgroups | 7 | {' | '.join(cells)} |  |  |  |" in page

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


class TestCalibration:
    def test_bins_have_the_error_of_the_metric(self):
        rng = np.random.default_rng(0)
        proba = rng.dirichlet(np.ones(3), 500)
        truth = rng.integers(3, size=500)
        expected = expected_calibration_error(truth, proba, [0, 1, 2])
        bins = [
            accuracy_calibration.bins_of(
                accuracy_calibration.reliability(truth[some], proba[some], [0, 1, 2])
            )
            for some in (slice(None), slice(None, 250), slice(250, None))
        ]
        assert accuracy_calibration.together(bins[:1]).error == pytest.approx(expected)
        assert accuracy_calibration.together(bins[1:]).error == pytest.approx(expected)
        assert sum(n for n, _, _ in bins[0]) == 500

    def test_a_label_that_is_no_class_is_wrong(self):
        truth, proba = np.array(["a", "z"]), np.array([[1.0, 0.0]] * 2)
        curve = accuracy_calibration.reliability(truth, proba, ["a", "b"])
        assert accuracy_calibration.bins_of(curve) == [(2, 1.0, 0.5)]


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
        assert all(("bins" in one) == (one["method"] == LABELS) for one in found if one["size"])

    def test_what_is_asked_for_is_done_again(self, tmp_path):
        results = accuracy.Results(tmp_path / "results.jsonl")
        chosen = {"methods": ["naivebayes", "LinearSVC"], "n_draws": 1}
        accuracy.run([tiny()], results, **chosen)
        lines = [one if "about" in one else one | {"seconds": -1.0} for one in results]
        results.path.write_text("".join(json.dumps(one) + "\n" for one in lines))
        accuracy.run([tiny()], results, methods=["LinearSVC"], n_draws=1, again=True)
        took = {one["method"]: one["seconds"] for one in results if "about" not in one}
        assert took["NaiveBayes"] == -1
        assert took["LinearSVC"] >= 0
        assert len(list(results)) == len(lines)

    def test_parts_cannot_be_done_again(self, tmp_path, capsys):
        with pytest.raises(SystemExit):
            accuracy.main(["--results", str(tmp_path / "r"), "--again", "--part", "1/2"])
        assert "which other parts may be writing to" in capsys.readouterr().err

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


@pytest.fixture(scope="module")
def performance(tmp_path_factory):
    out = tmp_path_factory.mktemp("peers") / "performance.md"
    peers.main(["--small", "--out", str(out)])
    return out


class TestPeers:
    def test_every_part_has_a_table_with_all_who_are_there(self, performance):
        text = performance.read_text()
        for part, title in peers_page.TITLES.items():
            section = text.split(f"## {title}\n")[1].split("\n## ")[0]
            for name in PARTS[part].names:
                assert f"| {name} |" in section or f"| **{name}** |" in section or (
                    f"Not there: {name} (" in section
                )  # fmt: skip
        assert "`CountVectorizer` and `WordCounter` are the same." in text

    def test_figures_stand_beside_it(self, performance):
        for picture in re.findall(r"!\[.*\]\((.*)\)", performance.read_text()):
            assert (performance.parent / picture).read_text().startswith("<?xml")

    def test_work_in_a_process_of_its_own_is_the_same_work(self, tmp_path):
        job = peers.Job("classify", "stdlib", 3)
        (work,) = peers.works_of(job, None)
        file = tmp_path / "work"
        file.write_bytes(pickle.dumps(work))
        apart = peers.apart("classify", "NaiveBayes", file)
        here = peers.measured("classify", "NaiveBayes", work)
        assert apart["score"] == here["score"] > 0.5
        assert apart["MiB"] > 0

    def test_what_fails_is_said(self, tmp_path):
        file = tmp_path / "work"
        file.write_bytes(b"nothing")
        assert "Error" in peers.apart("classify", "NaiveBayes", file)["missing"]

    def test_it_says_where_a_peer_is_ahead(self, tmp_path):
        about = {"part": "count", "corpus": "tiny", "size": None, "documents": 2, "classes": 1}
        lines = [
            {**about, "megabytes": 6.0, "name": name, "same": [1], **values}
            for name, values in (
                ("CountVectorizer", {"fit": 3.0, "transform": 2.0, "MiB": 10.0}),
                ("CountVectorizer", {"fit": 1.0, "transform": 2.0, "MiB": 30.0}),
                ("CountVectorizer", {"fit": 2.0, "transform": 2.0, "MiB": 20.0}),
                ("WordCounter", {"fit": 1.0, "transform": 4.0, "MiB": 20.0}),
            )
        ]
        (table,) = peers_page.tables_of(lines)
        assert table.rows()[2] == "| CountVectorizer | 3 | 1.00 | 3 | 1.00 | 20 MiB | 1.00 |"
        assert table.rows()[3] == "| **WordCounter** | 6 | 2.00 | 2 | 0.50 | 20 MiB | 1.00 |"
        assert table.ahead() == ["in transform, MB/s (WordCounter 2): CountVectorizer 3"]

    def test_labels_are_drawn_anew_in_each_round(self):
        first, second = peers.works_of(peers.Job("sort", "stdlib", 3, rounds=2), None)
        assert first.texts == second.texts
        assert first.known.tolist() != second.known.tolist()
        half, again = peers.works_of(peers.Job("classify", "stdlib", rounds=2), None)
        assert half.known.tolist() == again.known.tolist()

    def test_it_says_in_how_many_draws_we_are_ahead(self, tmp_path):
        about = {"part": "sort", "corpus": "tiny", "size": 3, "documents": 9, "classes": 2}
        about |= {"megabytes": 1.0, "fit": 1.0, "MiB": 1.0}
        right = {
            "CountVectorizer, MultinomialNB": (0.5, 0.4, 0.6),
            "TfidfVectorizer, LinearSVC": (0.6, 0.7, 0.8),
            "TaxonomyClassifier": (0.7, 0.9, 0.7),
        }
        lines = [
            {**about, "name": name, "draw": draw, "score": score, "predict": 1 / (1 + len(name))}
            for name, scores in right.items()
            for draw, score in enumerate(scores)
        ]
        peers_page.write_page([peers.machine(), *lines], tmp_path / "page.md")
        page = (tmp_path / "page.md").read_text()
        said = "76.7% are right, and 70.0% by the best peer (TfidfVectorizer, LinearSVC)"
        assert f"{said}: 6.7 ± 8.8 points more, in 2 of 3 draws." in page


@pytest.fixture(scope="module")
def scale_run(tmp_path_factory):
    """The whole benchmark at tiny sizes: what it measured, and where it wrote it."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    folder = tmp_path_factory.mktemp("scale")
    arguments = ["--small", "--results", f"{folder / 'r.jsonl'}", "--out", f"{folder / 's.md'}"]
    assert scale.main(arguments) == 0
    return folder, arguments


class TestScale:
    def test_everything_is_measured(self, scale_run):
        lines = list(Results(scale_run[0] / "r.jsonl"))
        assert {one["part"] for one in lines} == {"machine", "growth", "size", "stream", "cores"}
        growth = [one for one in lines if one["part"] == "growth"]
        assert {one["model"] for one in growth} == {*scale.MODELS, scale.COUNTER} - {scale.PRUNED}
        assert all(one["fit"] > 0 and one["predict"] > 0 for one in growth)
        stream = next(one for one in lines if one["part"] == "stream")
        assert stream["rows"] == 400
        assert 0 < stream["peak"] < 1
        streamed, in_memory = (
            next(one for one in lines if one.get("way") == way and one["model"] == scale.MIXTURE)
            for way in ("streams", "in memory")
        )
        assert streamed["pairs"] == in_memory["pairs"]

    def test_the_page_has_every_table_and_picture(self, scale_run):
        page = (scale_run[0] / "s.md").read_text()
        assert "Not measured" not in page
        for model in (*scale.MODELS, scale.COUNTER):
            assert page.count(f"| {model} |") >= (2 if model == scale.PRUNED else 4)
        pictures = re.findall(r"!\[.*\]\((.*)\)", page)
        assert pictures == ["s-documents.svg", "s-nodes.svg", "s-words.svg"]
        assert all((scale_run[0] / picture).exists() for picture in pictures)

    def test_what_is_done_is_not_done_again(self, scale_run):
        folder, arguments = scale_run
        before = [(folder / name).read_bytes() for name in ("r.jsonl", "s.md", "s-nodes.svg")]
        assert scale.main(arguments) == 0
        after = [(folder / name).read_bytes() for name in ("r.jsonl", "s.md", "s-nodes.svg")]
        assert after == before

    def test_an_answer_that_is_missing_or_changed_is_found(self, tmp_path):
        given, made = tmp_path / "given.csv", tmp_path / "made.csv"
        rows = ['0,"a line\r\nand\ranother",x', "1,b,y"]
        given.write_text("\n".join(["id,text,truth", *rows]), newline="")
        made.write_text("\n".join(["id,text,label", *rows]), newline="")
        assert scale.checked(given, made) == {"rows": 2, "accuracy": 1.0}
        for row in ("1,b,", "1,c,y", "2,b,y"):
            made.write_text("\n".join(["id,text,label", rows[0], row]), newline="")
            with pytest.raises(RuntimeError, match=r"Row 2 of .* is not that of .* with a label"):
                scale.checked(given, made)

    def test_a_failure_is_told_and_the_rest_goes_on(self, tmp_path, capsys):
        results = Results(tmp_path / "r.jsonl")
        streams = tuple((scale.SMALL.base, scale.MIXTURE, bound) for bound in ("9MiB", "64GiB"))
        plan = scale.SMALL._replace(
            along={}, sizes=(), streams=streams, gigabytes=0.0, on_workers=()
        )
        runner = scale.Runner(plan, None, results)
        runner.run()
        assert runner.n_failed == 1
        assert "memory='9MiB' is too little" in capsys.readouterr().err
        assert [one["memory"] for one in results if one["part"] == "size"] == ["64GiB"]


def grown(power, model="NaiveBayes", along="documents", **others):
    """Made-up lines of costs that grow with some power of the size."""
    base = {"part": "growth", "along": along, "documents": 1, "nodes": 1, "words": 1}
    costs = ("fit", "predict", "added", "pairs")
    return [
        {**base, "model": model, along: n, **dict.fromkeys(costs, (n / 100) ** power), **others}
        for n in (100, 200, 400, 800, 1600)
    ]


class TestGrowth:
    def test_exponents_and_their_errors(self):
        growth = fit_growth([1, 2, 4, 8], [3, 12, 48, 192])
        assert (growth.a, growth.b) == pytest.approx((3, 2))
        assert growth.error == pytest.approx(0, abs=1e-9)
        assert growth.at(10) == pytest.approx(300)
        x, y = np.log([1, 2, 4, 8]), np.log([3, 12, 50, 192])
        slope, intercept = np.polyfit(x, y, 1)
        left = ((y - slope * x - intercept) ** 2).sum()
        expected = np.sqrt(left / 2 / ((x - x.mean()) ** 2).sum())
        assert fit_growth([1, 2, 4, 8], [3, 12, 50, 192]).error == pytest.approx(expected)
        assert fit_growth([1, 2], [1, 2]).error is None

    def test_small_sizes_have_no_part(self):
        lines = grown(1.0)
        lines[0]["fit"] = lines[1]["fit"] = 50.0
        assert scale_page.Values(lines).growth("documents", "NaiveBayes", "fit").b == pytest.approx(
            1
        )

    def test_exponents_above_the_aim_are_named(self, tmp_path):
        page = tmp_path / "page.md"
        scale_page.write_page(grown(1.0) + grown(2.0, scale.GENERAL, "nodes"), page)
        assert "No exponent of an additive model is above 1.05." in page.read_text()
        scale_page.write_page(grown(1.2, predict=1.0), page)
        said = "NaiveBayes, fitting, with documents: 1.20 ± 0.00"
        assert f"Exponents of additive models above 1.05: {said}" in page.read_text()

    def test_what_was_not_run_is_on_paper_and_says_so(self, tmp_path):
        lines = grown(1.0, scale.MIXTURE, pairs=1000)
        size = {"part": "size", "documents": 10**6, "nodes": 1000, "words": 10**5}
        size |= {"model": scale.MIXTURE, "fit": 360.0, "peak": 1.5, "accuracy": 1.0, "pairs": 7}
        size |= {"sigma": None, "n_iter": None, "nnz": 50 * 10**6}
        lines += [{**size, "way": "in memory"}]
        lines += [{**size, "way": "streams", "memory": "4GiB", "gigabytes": 0.5}]
        scale_page.write_page(lines, tmp_path / "page.md")
        page = (tmp_path / "page.md").read_text()
        assert "| 1,000,000 | streams, 4GiB | HierarchicalMixture | 6 min | 1.5 GiB |" in page
        assert "| *100,000,000* | *streams* | *HierarchicalMixture* | *10 h* | *1.5 GiB* |" in page


def test_a_later_run_replaces_the_tables_that_it_has(tmp_path):
    def line(corpus, name, fit):
        return {"part": "count", "corpus": corpus, "size": None, "name": name, "fit": fit}

    first = [line("a", "x", 1), line("a", "y", 2), line("b", "x", 3)]
    later = [line("a", "x", 4)]
    for name, lines in (("first", first), ("later", later)):
        text = "a word of warning\n" + "".join(json.dumps(one) + "\n" for one in lines)
        (tmp_path / name).write_text(text)
    found = peers.read_lines([tmp_path / "first", tmp_path / "later"])
    assert found == [line("a", "x", 4), line("b", "x", 3)]
