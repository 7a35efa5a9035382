import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from leafwise import __version__
from leafwise.datasets import (
    DIRECTORIES,
    NEWSGROUPS_15,
    REUTERS_GROUPS,
    Dataset,
    load_directory,
    load_reuters,
)
from leafwise.exceptions import CorpusError, LabelError, OutputError
from leafwise.metrics import scores
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.multilabel import MultiLabelClassifier
from leafwise.papers import (
    EXPERIMENTS,
    Result,
    Steps,
    find,
    gaussier,
    toutanova,
    veeramachaneni,
    zhu,
)
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

IDENTITY = ("nodes with documents", "nodes about their keywords")
KEYS = ["method", "setting", "metric", "mean", "std", "draws", "paper"]
N_PER_GROUP = 30


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> Path:
    """Small corpora in the files of the real ones."""
    folder = tmp_path_factory.mktemp("corpora")
    tree = Taxonomy.from_paths(NEWSGROUPS_15)
    leaves = np.repeat(tree.leaves, N_PER_GROUP)
    news = _texts(tree, leaves, 0)
    rows = {
        "id": [str(i) for i in range(len(leaves))],
        "text": [f"From: {i}@site\nSubject: {text[:12]}\n\n{text}" for i, text in enumerate(news)],
        "label": [tree.names[i] for i in leaves],
    }
    pq.write_table(pa.table(rows), folder / "20news_19997.parquet")

    topics = {topic: {"name": topic} for line in REUTERS_GROUPS.values() for topic in line.split()}
    (folder / "reuters21578_topics.json").write_text(json.dumps({"topics": topics}))
    tree = Taxonomy.from_paths(
        ["energy/crude", "energy/gas", "metals/gold", "metals/zinc", "metals/tin"]
    )
    # In training: 60, 40, 25, 12 and 6 documents of their own, and 22 of two topics.
    own = np.repeat(tree.leaves, [60, 40, 25, 12, 6])
    first, second = np.repeat(tree.leaves[0], 22), np.tile(tree.leaves[1:3], 11)
    leaves = np.concatenate([own, first])
    stories = _texts(tree, leaves, 1)
    for i, more in enumerate(_texts(tree, second, 2)):
        stories[len(own) + i] += " " + more
    labels = [[tree.names[i]] for i in leaves]
    for i, node in enumerate(second):
        labels[len(own) + i].append(tree.names[node])
    n = len(leaves)
    rows = {
        "id": list(range(2 * n)),
        "title": [None] * 2 * n,
        "text": stories + stories[::-1],
        "aptemod90": labels + labels[::-1],
        "split": ["train"] * n + ["test"] * n,
    }
    pq.write_table(pa.table(rows), folder / "reuters21578.parquet")

    lines = [
        (text, f"{top}/{path}")
        for seed, top in enumerate(DIRECTORIES.values())
        for text, path in _entries(seed)
    ]
    rows = {
        "id": [str(i) for i in range(len(lines))],
        "title": [None] * len(lines),
        "description": [text for text, _ in lines],
        "path": [path for _, path in lines],
    }
    pq.write_table(pa.table(rows), folder / "directory.parquet")
    return folder


FRUITS = ("fruit", "fruit/apple", "fruit/pear", "metal", "metal/iron", "metal/zinc")


def _entries(seed: int) -> list[tuple[str, str]]:
    """Texts of a tree of six nodes; six in ten have the name of their node in them."""
    tree = Taxonomy.from_paths(FRUITS)
    nodes = np.repeat(np.arange(1, 7), 10)
    named = np.random.default_rng(seed).random(len(nodes)) < 0.6
    return [
        (f"{tree.names[i]} {text}" if with_name else text, tree.paths[i])
        for i, text, with_name in zip(
            nodes, _texts(tree, nodes, seed, class_prior=[0] + 6 * [1 / 6]), named
        )
    ]


def _stdlib(names: bool = True) -> Dataset:
    """A small corpus in place of the standard library."""
    texts, labels = zip(*_entries(90 + names))
    ids = [str(i) for i in range(len(texts))]
    return Dataset(list(texts), list(labels), Taxonomy.from_paths(FRUITS), ids, None, "stdlib", "")


def _texts(tree: Taxonomy, leaves: np.ndarray, seed: int, **kwargs) -> list[str]:
    """A text for each node, all from the same distributions of words."""
    drawn = make_corpus(tree, 40 * len(leaves), 300, 30, concentration=20, random_state=7, **kwargs)
    texts = np.array(drawn.texts(), dtype=object)
    rng = np.random.default_rng(seed)
    return [texts[rng.choice(np.flatnonzero(drawn.y == leaf))] for leaf in leaves]


# ---- the published figures --------------------------------------------------------------------


def test_toutanova_table_3_is_as_printed():
    table = toutanova.TABLE_3
    assert list(table) == ["NB", "PLSA", "HS", "kNN", "HM"]
    assert all(tuple(line) == (7, 14, 20, 34, 48, 67, 133, 667) for line in table.values())
    assert (table["HM"][7], table["kNN"][67], table["PLSA"][20]) == (0.585, 0.780, 0.663)
    assert table["HM"][667] == table["HS"][667] == 0.888
    # T section 4: 11 % and 22 % less error than HS and NB, with 7 documents.
    for other, less in (("HS", 0.11), ("NB", 0.22)):
        errors = 1 - table["HM"][7], 1 - table[other][7]
        assert 1 - errors[0] / errors[1] == pytest.approx(less, abs=0.005)


def test_toutanova_table_4_is_as_printed():
    assert toutanova.TABLE_4["SVM"]["maF1"] == 0.554
    assert toutanova.TABLE_4["HM"]["acc"] == 0.9953
    for line in toutanova.TABLE_4.values():
        harmonic = 2 * line["miP"] * line["miR"] / (line["miP"] + line["miR"])
        assert line["miF1"] == pytest.approx(harmonic, abs=0.001)


def test_zhu_tables_are_as_printed():
    # The last row of Z table 2: the improvement of GHS over NB, in per cent.
    improved = [-2.2, 12.2, 13.8, 10.0, 4.6, 3.6, 1.8, 0.5, 0.1]
    ours = [100 * (zhu.TABLE_2["GHS"][n] / zhu.TABLE_2["NB"][n] - 1) for n in zhu.SIZES]
    assert ours == pytest.approx(improved, abs=0.11)
    assert (zhu.TABLE_2["HS"][5], zhu.TABLE_2["HS"][600]) == (0.259, 0.816)
    assert (zhu.TABLE_3["NB"][5], zhu.TABLE_3["HS"][5], zhu.TABLE_3["GHS"][20]) == (
        0.528, 0.403, 0.732,
    )  # fmt: skip
    assert zhu.SIZES == (5, 10, 20, 40, 80, 100, 200, 400, 600)


def test_veeramachaneni_table_2_is_as_printed():
    table = veeramachaneni.TABLE_2
    assert len(table) == 8
    assert table["LookSmart, Peripherals"] == (10.96, 0.05, 20.43, 7, 19.13)
    assert table["Google, Language"] == (24.67, 30.69, 27.31, 1, 26.21)
    assert [best for _, _, best, _, _ in table.values()] == [
        27.74, 27.31, 42.24, 41.71, 34.48, 29.93, 42.70, 20.43,
    ]  # fmt: skip
    assert sorted(sigma for _, _, _, sigma, _ in table.values()) == [1, 1, 1, 5, 5, 7, 7, 10]
    # V 3.4: HD is better than Naive Bayes on all, and than EM on all but one.
    assert all(best > two > nb for nb, _, best, _, two in table.values())
    assert [name for name, (_, em, best, _, _) in table.items() if em > best] == [
        "Google, Language"
    ]


# ---- what comes out ---------------------------------------------------------------------------

METHODS = {
    "toutanova-table-3": {"NB", "PLSA", "HS", "HM", "kNN", "SVM", "GHS", "HM, uniform weights"},
    "toutanova-table-4": {"HM", "SVM", "kNN", "HS", "NB"}
    | {f"{name}, T's ratio" for name in ("HM", "HS", "NB")},
    "toutanova-figure-2": {"HS", "HM"},
    "zhu-table-2": {"NB", "HS", "GHS", "NB, held-out Lidstone", "GHS, Laplace inside"},
    "zhu-table-3": {"NB", "HS", "GHS", "NB, held-out Lidstone", "GHS, Laplace inside"},
    "zhu-figure-3": {"HS", "GHS"},
    "gaussier-figure-5": {"NB", "PLC", "HiMi", "HPLC"},
    "veeramachaneni-table-2": {"keyword NB", "plain EM", "V's HD, best σ", "V's HD, σ = 2"}
    | {"keyword match", "HD, σ auto", "HD, best σ", "the true labels"},
    "veeramachaneni-figure-4": {"V's HD", "HD"},
}
SMALL = {
    "toutanova-table-3": (7, 14),
    "toutanova-table-4": None,
    "toutanova-figure-2": (15, 50, 200),
    "zhu-table-2": (5, 10),
    "zhu-table-3": (5, 11),
    "zhu-figure-3": (5, 20),
    "gaussier-figure-5": (6, 20),
    "veeramachaneni-table-2": (2, 1000),
    "veeramachaneni-figure-4": (2, 50),
}


@pytest.fixture(scope="module")
def results(corpora) -> dict[str, Result]:
    """Every experiment on the small corpora."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(veeramachaneni, "load_stdlib", _stdlib)
        return {name: find(name).run(corpora, 2, sizes, None) for name, sizes in SMALL.items()}


def test_every_experiment_is_tested():
    assert set(METHODS) == set(SMALL) == set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_files(results, name, tmp_path):
    result = results[name]
    paths = result.write(tmp_path / "new")
    drawn = [] if name == "toutanova-table-4" else [f"{name}.png"]
    assert [path.name for path in paths] == [f"{name}.json", f"{name}.md", *drawn]
    assert sorted((tmp_path / "new").iterdir()) == sorted(paths)

    found = json.loads(paths[0].read_text(encoding="utf-8"))
    assert list(found) == ["name", "corpus", "protocol", "rows"]
    assert found["name"] == name
    assert found["rows"] == result.rows
    assert {row["method"] for row in found["rows"]} == METHODS[name]
    for row in found["rows"]:
        assert list(row) == KEYS
        assert 0 < row["mean"] <= 1e6 if row["metric"] == "sigma" else 0 <= row["mean"] <= 1
        assert row["std"] >= 0
        assert row["draws"] == (2 if EXPERIMENTS[name].drawn else 1)
        assert all(isinstance(row[key], str) for key in KEYS[:3])

    page = paths[1].read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    assert result.protocol in page
    assert result.corpus in page
    assert f"leafwise {__version__}" in page
    assert "seed 0" in page
    for row in found["rows"]:
        if not name.startswith("veeramachaneni"):  # which has tables of its own
            assert f"\n| {row['method']} | " in page
        if row["metric"] not in ("sigma", *IDENTITY):
            assert f"{row['mean']:.3f}" in page
    assert str(tmp_path) not in page + paths[0].read_text(encoding="utf-8")
    assert (f"![{name}]({name}.png)" in page) == bool(drawn)
    if drawn:
        assert paths[2].read_bytes().startswith(b"\x89PNG")
        assert paths[2].stat().st_size > 10_000


def test_figures_stand_beside_those_of_the_same_setting(results):
    rows = {(r["method"], r["setting"]): r["paper"] for r in results["toutanova-table-3"].rows}
    assert rows["NB", "7"] == 0.467
    assert rows["HM", "14"] == 0.631
    assert (
        rows["SVM", "7"] is rows["HM, uniform weights", "7"] is rows["HM", "7, all fields"] is None
    )
    assert {m for m, setting in rows if setting == "14, all fields"} == {"NB", "HS", "HM"}
    rows = {(r["method"], r["setting"]): r["paper"] for r in results["zhu-table-3"].rows}
    assert rows["GHS", "5"] == 0.424
    assert rows["GHS", "11"] is None  # Z has no such size
    assert rows["NB, held-out Lidstone", "5"] is None


def test_table_4_has_the_scores_of_the_decisions(results, corpora):
    reuters = load_reuters(data=corpora)
    train, test = reuters.subset(reuters.split == "train"), reuters.subset(reuters.split == "test")
    counter = WordCounter()
    model = MultiLabelClassifier(NaiveBayes(reuters.taxonomy, nodes="leaves"))
    model.fit(counter.fit_transform(train.texts), train.labels)
    found = model.predict(counter.transform(test.texts))
    n_right = sum(len(set(a) & set(b)) for a, b in zip(found, test.labels))
    n_found, n_true = sum(map(len, found)), sum(map(len, test.labels))
    rows = {(r["method"], r["metric"]): r for r in results["toutanova-table-4"].rows}
    assert rows["NB", "miP"]["mean"] == pytest.approx(n_right / n_found)
    assert rows["NB", "miR"]["mean"] == pytest.approx(n_right / n_true)
    errors = (n_found + n_true - 2 * n_right) / (90 * len(test))
    assert rows["NB", "acc"]["mean"] == pytest.approx(1 - errors)
    assert rows["NB", "acc"]["paper"] == 0.9940
    assert {row["setting"] for row in rows.values()} == {"90 categories"}
    # 85 categories without a document count as 0 in a mean over all.
    assert rows["SVM", "maR"]["mean"] <= 5 / 90
    assert rows["SVM", "miF1"]["mean"] > 0.7


def test_figure_2_has_means_over_categories_of_a_size(results, corpora):
    result = results["toutanova-figure-2"]
    # With their own and those of two topics: 82, 51, 36, 12 and 6 training documents.
    settings = {"<=15", "16-50", "51-200"}
    assert {row["setting"] for row in result.rows} == settings
    assert "87 with <=15, 1 with 16-50, 2 with 51-200" in result.protocol
    reuters, found = toutanova._assign(corpora, ("HM",), None)
    gold = scores(reuters.y_test, found["HM"], labels=["metals/gold"])["macro_f1"]
    both = [
        scores(reuters.y_test, found["HM"], labels=[label])["macro_f1"]
        for label in ("energy/crude", "energy/gas")
    ]
    rows = {row["setting"]: row["mean"] for row in result.rows if row["method"] == "HM"}
    assert rows["16-50"] == pytest.approx(gold)
    assert rows["51-200"] == pytest.approx(np.mean(both))


def test_a_bin_without_a_category_has_no_row(corpora, tmp_path):
    result = toutanova.figure_2(corpora, 1, [2, 1, 100], None)
    assert [row["setting"] for row in result.rows] == ["<=1", "3-100"] * 2
    assert len(result.write(tmp_path)) == 3


def test_weights_add_up(results):
    total: dict = {}
    for row in results["zhu-figure-3"].rows:
        key = row["method"], row["setting"]
        total[key] = total.get(key, 0) + row["mean"]
    assert total == pytest.approx({(m, n): 1.0 for m in ("GHS", "HS") for n in ("5", "20")})
    own = {
        (row["method"], row["setting"]): row["mean"]
        for row in results["zhu-figure-3"].rows
        if row["metric"] == "weight of own class"
    }
    assert own["GHS", "20"] > own["GHS", "5"]  # Z 4.3.2
    assert own["HS", "20"] > own["HS", "5"]


def test_general_shrinkage_has_its_own_weight_on_the_diagonal():
    class Fitted:
        weights_ = np.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]])  # two classes and the uniform one

    assert zhu._level_weights(Fitted()) == pytest.approx(
        np.array([[0.5, 0.2, 0.3], [0.8, 0.1, 0.1]])
    )


def test_the_same_seed_gives_the_same_figures(results, corpora):
    again = find("gaussier-figure-5").run(corpora, 2, (6, 20), None)
    assert again.to_json() == results["gaussier-figure-5"].to_json()
    other = find("gaussier-figure-5").run(corpora, 1, (20,), None)
    assert [row["draws"] for row in other.rows] == [1] * 8
    assert "Protocol: One sample for each size" in other.to_markdown()


def test_a_page_in_full():
    rows = [
        {"method": m, "setting": s, "metric": "accuracy", "mean": a, "std": 0.01, "draws": 3,
         "paper": p}
        for m, s, a, p in [
            ("NB", "7", 0.5, 0.4671), ("NB", "20", 0.6, None), ("SVM", "20", 0.7, None),
            ("NB", "7, all fields", 0.8, None),
        ]
    ]  # fmt: skip
    page = Result("toutanova-table-3", "A corpus.", "A protocol.", rows).to_markdown()
    assert page == (
        "# toutanova-table-3\n\n"
        "Accuracy on newsgroups, 7 to 667 documents each.\n\n"
        "Corpus: A corpus.\n\nProtocol: A protocol.\n\n"
        "## accuracy\n\n"
        "| method | 7 | 20 |\n"
        "| --- | --- | --- |\n"
        "| NB | 0.5000 ± 0.0100 | 0.600 ± 0.010 |\n"
        "| NB, paper | 0.4671 |  |\n"
        "| NB, difference | +0.0329 |  |\n"
        "| SVM |  | 0.700 ± 0.010 |\n\n"
        "## accuracy, all fields\n\n"
        "| method | 7 |\n"
        "| --- | --- |\n"
        "| NB | 0.800 ± 0.010 |\n\n"
        "Ours are means ± standard deviations over draws.\n\n"
        "T: Toutanova, Chen, Popat, Hofmann: Text Classification in a Hierarchical Mixture Model "
        "for Small Training Sets (CIKM 2001).\n\n"
        f"Written by `leafwise reproduce toutanova-table-3` of leafwise {__version__}.\n"
    )


# ---- V: no labels -----------------------------------------------------------------------------


def _by_method(result: Result, metric: str = "micro_f1") -> dict[tuple[str, str], float]:
    return {(r["method"], r["setting"]): r["mean"] for r in result.rows if r["metric"] == metric}


def _sigma(sigma: float) -> str:
    """Three digits, or all before the point."""
    return f"{sigma:,.0f}" if sigma >= 1000 else f"{sigma:.3g}"


def test_the_models_of_table_2(results, corpora):
    """V's own procedure, and TaxonomyClassifier's, both as the page says."""
    f1 = _by_method(results["veeramachaneni-table-2"])
    sigma = _by_method(results["veeramachaneni-table-2"], "sigma")
    kotlin = load_directory("kotlin", corpora)
    counter = WordCounter(stop_words="english", stemmer="english", compounds=True)
    X = counter.fit_transform(kotlin.texts)
    tree = kotlin.taxonomy
    model = HierarchicalDirichlet(
        tree, words="roots", nodes=tree.paths[1:], vocabulary=counter
    ).fit(X)
    assert f1["HD, σ auto", "kotlin"] == model.score(X, kotlin.labels)
    assert sigma["HD, σ auto", "kotlin"] == model.sigma_
    in_documents = np.bincount(X.indices, minlength=X.shape[1])
    names = counter.get_feature_names_out().tolist()
    keyword = np.isin(names, ["fruit", "appl", "pear", "metal", "iron", "zinc"])
    kept = (in_documents >= 3) & (in_documents <= 18) | keyword  # of 60
    assert 0 < kept.sum() < len(kept)
    X = X.multiply(kept).tocsr() > 0
    by_v = {
        s: HierarchicalDirichlet(
            tree, words="set", sigma=s, nodes=tree.paths[1:], vocabulary=counter,
            keyword_weight=0.0, init="prototypes", beta=1.0,
        ).fit(X).score(X, kotlin.labels)
        for s in (2.0, 1000.0)
    }  # fmt: skip
    assert f1["V's HD, σ = 2", "kotlin"] == by_v[2.0]
    assert f1["V's HD, best σ", "kotlin"] == max(by_v.values())
    assert sigma["V's HD, best σ", "kotlin"] == max(by_v, key=by_v.__getitem__)


def test_table_2_is_laid_out_as_in_the_paper(results):
    result = results["veeramachaneni-table-2"]
    page, f1, sigma = result.to_markdown(), _by_method(result), _by_method(result, "sigma")
    columns = [
        "keyword NB", "plain EM", "V's HD, best σ", "V's HD, σ = 2", "keyword match", "HD, σ auto",
        "HD, best σ",
    ]  # fmt: skip
    for name in [*DIRECTORIES, "stdlib", "stdlib, docstrings alone"]:
        cells = [f"{f1[method, name]:.3f}" for method in columns]
        for k in (2, 5, 6):
            cells[k] += f" ({_sigma(sigma[columns[k], name])})"
        assert f"\n| {name} | 60 | 6 | {' | '.join(cells)} |\n" in page
    means = [np.mean([f1[method, name] for name in DIRECTORIES]) for method in columns]
    cells = [f"{mean:.3f}" for mean in means]
    assert f"\n| mean of the directories |  |  | {' | '.join(cells)} |\n" in page
    wins = [
        sum(f1["HD, σ auto", n] > max(f1[o, n] for o in others) for n in DIRECTORIES)
        for others in (["keyword match"], ["plain EM"], ["keyword match", "plain EM"])
    ]
    assert (
        "above keyword match on {}, above plain EM on {}, and above both on {}.".format(*wins)
        in page
    )
    assert "| LookSmart, Movies | 0.2683 | 0.3371 | 0.4270 (5) | 0.4109 |" in page
    assert "other taxonomies" in page
    # Nothing is rejected at a rate of 0, and the share of right ones cannot grow as more are.
    for name in DIRECTORIES:
        assert f1["HD, σ auto", f"{name}, 0 % rejected"] == f1["HD, σ auto", name]
        assert f1["HD, σ auto", f"{name}, 50 % rejected"] <= 2 / 3


def test_learning_without_labels_helps(results):
    f1 = _by_method(results["veeramachaneni-table-2"])
    for method, least in (("keyword match", 0.5), ("V's HD, σ = 2", 0.6), ("HD, σ auto", 0.6)):
        assert np.mean([f1[method, name] for name in DIRECTORIES]) > least
    # Four in ten documents have no keyword, and EM finds the nodes of some of them.
    better = [f1["HD, σ auto", name] > f1["keyword match", name] for name in DIRECTORIES]
    assert sum(better) >= 7


def test_figure_4_has_every_sigma_and_the_one_chosen(results):
    result = results["veeramachaneni-figure-4"]
    f1, chosen = _by_method(result), _by_method(result, "sigma")
    assert len(f1) == 2 * 8 * 3
    assert set(chosen) == {(m, f"{name}, σ auto") for m in ("V's HD", "HD") for name in DIRECTORIES}
    table = _by_method(results["veeramachaneni-table-2"])
    for name in DIRECTORIES:
        assert f1["V's HD", f"{name}, σ = 2"] == table["V's HD, σ = 2", name]
        assert f1["HD", f"{name}, σ auto"] == table["HD, σ auto", name]
    page = result.to_markdown()
    assert page.count("| taxonomy | σ = 2 | σ = 50 | σ auto (σ) |") == 2
    shown = [f1["HD", f"osint, σ {s}"] for s in ("= 2", "= 50", "auto")]
    cells = " | ".join(f"{value:.3f}" for value in shown)
    assert f"| osint | {cells} ({_sigma(chosen['HD', 'osint, σ auto'])})" in page


def test_progress_without_labels(corpora, monkeypatch):
    monkeypatch.setattr(veeramachaneni, "load_stdlib", _stdlib)
    monkeypatch.setattr(veeramachaneni, "DIRECTORIES", {"osint": DIRECTORIES["osint"]})
    seen: list = []
    veeramachaneni.table_2(corpora, 1, [10], lambda *step: seen.append(step))
    # V's HD at 10 and 2, plain EM, auto, and ours at 10.
    assert seen[:2] == [("Reading osint", 0, 15), ("osint", 1, 15)]
    assert seen[-1] == ("stdlib, docstrings alone", 15, 15)


@pytest.fixture(scope="module")
def odd() -> veeramachaneni.Corpus:
    """A name with a slash in it, and a keyword that is in no document."""
    keywords = {
        "food": ["food"],
        "food/salt\\/pepper": ["salt", "pepper"],
        "tools": ["tool"],
        "tools/saw": ["saw", "lathe"],
    }
    tree = Taxonomy.from_paths(keywords, keywords=keywords)
    texts = ["food salt pepper grill", "salt pepper grill oven", "tool grill wood", "saw wood"]
    labels = [tree.paths[i] for i in (2, 2, 3, 4)]
    dataset = Dataset(texts, labels, tree, list("abcd"), None, "odd", "")
    return veeramachaneni._count("odd", dataset)


def test_words_that_v_leaves_out(odd):
    had = odd.counter.get_feature_names_out()[np.unique(odd.V.indices)]
    # "grill" is in too many documents, "oven" and "wood" are in too few; keywords are kept.
    assert sorted(had) == ["food", "pepper", "salt", "saw", "tool"]
    assert odd.X.shape == odd.V.shape
    assert set(odd.V.data.tolist()) == {1}
    assert odd.own.sum(axis=0).tolist() == [0, 1, 2, 1, 1]


def test_prototypes_alone(odd):
    """Against V eq. 14 and 17 written out."""
    tree, n_words = odd.tree, odd.V.shape[1]
    column = odd.counter.vocabulary_
    theta = np.full((len(tree), n_words), 0.1)
    for i in range(1, len(tree)):
        theta[i, [column[word] for word in tree.keywords[i] if word in column]] = 0.9
    d = odd.V.toarray()[:, None, :]
    log_p = (d * np.log(theta) + (1 - d) * np.log(1 - theta)).sum(axis=2)
    assert (
        veeramachaneni._prototypes(odd).nodes.tolist() == (1 + log_p[:, 1:].argmax(axis=1)).tolist()
    )


def test_plain_em_keeps_the_numbers_of_nodes(odd):
    steps = Steps(1, None)
    assert veeramachaneni._plain_em(odd, steps).nodes.tolist() == [2, 2, 3, 4]
    assert steps.done == 1


def test_keyword_matches_alone(odd):
    nothing = odd._replace(X=sparse.csr_matrix(odd.X.shape))
    assert veeramachaneni._matches(odd).nodes.tolist() == [2, 2, 3, 4]
    assert veeramachaneni._matches(nothing).nodes.tolist() == [0, 0, 0, 0]  # no node, so wrong


def test_nodes_about_their_keywords():
    # Of nodes 1 to 4, a document each has the keyword of 1 and 2; nobody has that of 3.
    own = np.zeros((4, 5), bool)
    own[[0, 1], [1, 2]] = True
    assert veeramachaneni.about_keywords(np.array([1, 2, 3, 0]), own) == (3 / 4, 1.0)
    assert veeramachaneni.about_keywords(np.array([2, 1, 0, 0]), own) == (2 / 4, 0.0)  # swapped
    assert veeramachaneni.about_keywords(np.array([1, 1, 1, 1]), own) == (1 / 4, 0.0)  # one for all
    assert veeramachaneni.about_keywords(np.array([1, 3, 3, 3]), own) == (2 / 4, 1.0)
    assert veeramachaneni.about_keywords(np.zeros(4, int), own) == (0.0, 0.0)


def test_pages_write_metrics_out(results):
    page = results["gaussier-figure-5"].to_markdown()
    assert "## micro F1\n" in page
    assert "## macro F1\n" in page
    assert {row["metric"] for row in results["gaussier-figure-5"].rows} == {"micro_f1", "macro_f1"}


def test_the_bars_of_the_weights_are_explained(results):
    assert "a standard deviation over the classes to each side" in results["zhu-figure-3"].protocol


def test_one_setting_and_several_metrics_are_one_table(results):
    page = results["toutanova-table-4"].to_markdown()
    assert "| method | miP | miR | miF1 | maP | maR | maF1 | acc |" in page
    assert re.search(r"\| HS, paper \| 0.849 \| .* \| 0.9950 \|", page)
    assert page.count("## ") == 1


# ---- what they are made of --------------------------------------------------------------------


def test_words_with_a_letter():
    counter = WordCounter(token_pattern=gaussier.TOKEN_PATTERN, lowercase=False)
    counted = counter.fit_transform(["A 42 x86 3.14 it's _ __x R2D2 --- 1st 2_3 The the x86 é"])
    assert dict(zip(counter.get_feature_names_out(), counted.toarray()[0].tolist())) == {
        "A": 1, "x86": 2, "it": 1, "s": 1, "__x": 1, "R2D2": 1, "1st": 1, "The": 1, "the": 1,
        "é": 1,
    }  # fmt: skip


def test_two_thirds_of_a_sample():
    assert [(gaussier.n_train(n), n - gaussier.n_train(n)) for n in (3, 10, 100, 200)] == [
        (2, 1), (7, 3), (67, 33), (134, 66),
    ]  # fmt: skip


def test_samples_are_parted(corpora):
    counter = WordCounter()
    from leafwise.papers import newsgroups

    news = newsgroups(counter, corpora, "subject+body")
    seen = []
    steps = Steps(4, lambda what, done, total: seen.append((what, done, total)))
    curve = gaussier._measure(news, (6, 12), 2, steps)
    assert (curve.n_train, curve.n_test) == ((15 * 4, 15 * 8), (15 * 2, 15 * 4))
    assert curve.scores["macro_f1"].shape == (4, 2, 2)
    assert seen == [
        ("6 documents per class", 1, 4), ("6 documents per class", 2, 4),
        ("12 documents per class", 3, 4), ("12 documents per class", 4, 4),
    ]  # fmt: skip


def test_log_tf_idf():
    X = sparse.csr_matrix([[1, 3, 0, 0], [0, 2, 1, 0]])
    weights = toutanova.LogTfIdf().fit(X)
    # The second word is in both documents, the fourth in none: they weigh nothing.
    assert weights.transform(X).toarray() == pytest.approx(
        np.array([[1.0, 0, 0, 0], [0, 0, 1.0, 0]])
    )
    Z = sparse.csr_matrix([[2, 5, 1, 9]])
    a, b = (1 + np.log(2)) * np.log(2), np.log(2)
    expected = np.array([[a, 0, b, 0]]) / np.hypot(a, b)
    assert weights.transform(Z).toarray() == pytest.approx(expected)
    assert Z.toarray().tolist() == [[2, 5, 1, 9]]


def test_progress_counts_every_fit(corpora):
    seen = []
    toutanova.table_3(corpora, 1, [3, 4], lambda *step: seen.append(step))
    assert seen[0] == ("Reading subjects and bodies", 0, 22)
    assert seen[1] == ("3 documents per class", 1, 22)
    assert seen[16] == ("4 documents per class", 16, 22)
    assert seen[17] == ("Reading all fields", 16, 22)
    assert seen[-1] == ("4 documents per class, all fields", 22, 22)


# ---- what goes wrong --------------------------------------------------------------------------


def test_an_unknown_experiment():
    with pytest.raises(ValueError, match=r'no experiment "zhu-tab-3"\. Did you mean') as error:
        find("zhu-tab-3")
    assert 'Did you mean "zhu-table-3"?' in str(error.value)
    assert all(name in str(error.value) for name in EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_missing_corpora(name, tmp_path):
    file = EXPERIMENTS[name].files[0]
    with pytest.raises(CorpusError, match=f"{file} is not in the data directory"):
        find(name).run(tmp_path, 1, None, None)


@pytest.mark.parametrize(
    "name", ["toutanova-table-3", "zhu-table-2", "zhu-figure-3", "gaussier-figure-5"]
)
def test_sizes_that_are_too_large(corpora, name):
    fits = []
    with pytest.raises(LabelError, match=r"has 30 documents, expected at least 31: 30 to draw"):
        find(name).run(corpora, 1, [5, 30], lambda what, done, total: fits.append(done))
    assert max(fits) == 0  # before any work is done


def test_samples_that_are_too_small(corpora):
    with pytest.raises(LabelError, match=r"2 documents per class cannot be parted .* from 3 on"):
        gaussier.figure_5(corpora, 1, [2, 10], None)


def test_without_matplotlib(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.warns(UserWarning, match=r"zhu-table-2.png is left out: .* 'leafwise\[plot\]'"):
        paths = results["zhu-table-2"].write(tmp_path)
    assert [path.name for path in paths] == ["zhu-table-2.json", "zhu-table-2.md"]
    assert "png" not in paths[1].read_text()


def test_folders_that_cannot_be_written(results, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file: it is a file\. Name a folder\."):
        results["zhu-table-2"].write(tmp_path / "file")
    for out in ("file/a", "file/a/b"):
        with pytest.raises(OutputError, match=rf"{out}: .*file is a file\. Name a folder\."):
            results["zhu-table-2"].write(tmp_path / out)
    tmp_path.chmod(0o555)
    with pytest.raises(OutputError, match=r"Cannot write .*/a: its folder is read-only"):
        results["zhu-table-2"].write(tmp_path / "a" / "b" / "c")
    tmp_path.chmod(0o755)
    with pytest.raises(OutputError, match=r"Cannot write .*xxx: File name too long"):
        results["zhu-table-2"].write(tmp_path / ("x" * 300))
    (tmp_path / "zhu-table-2.md").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        results["zhu-table-2"].write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "zhu-table-2.md"]


def test_a_folder_is_made_with_those_it_is_in(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = results["zhu-table-2"].write("a/b/c")
    assert [path.parent for path in paths] == [Path("a/b/c")] * 3
    assert all((tmp_path / path).is_file() for path in paths)
    with pytest.raises(OutputError, match=r"Cannot make d/xxx.*: File name too long"):
        results["zhu-table-2"].write("d/" + "x" * 300)


def test_a_figure_that_fails_leaves_no_file(tmp_path):
    def figure():
        raise RuntimeError("no ink")

    with pytest.raises(RuntimeError, match="no ink"):
        Result("zhu-table-2", "", "", [], figure).write(tmp_path)
    assert not list(tmp_path.iterdir())


# ---- on the real corpus -----------------------------------------------------------------------


def test_newsgroups(data_dir):
    result = zhu.table_2(data_dir, 1, [20], None)
    assert "14,997 documents" in result.corpus
    rows = {row["method"]: row for row in result.rows}
    assert rows["NB"]["mean"] == pytest.approx(rows["NB"]["paper"], abs=0.08)
    assert rows["GHS"]["mean"] > rows["NB"]["mean"]


def test_a_web_directory(data_dir):
    corpus = veeramachaneni._read("bigdata", data_dir)
    assert corpus.X.shape[0] == 642
    steps = Steps(2, None)
    model = veeramachaneni._model(corpus)
    f1 = {
        method: np.mean(found.nodes == corpus.y)
        for method, found in {
            "NB": veeramachaneni._prototypes(corpus),
            "EM": veeramachaneni._plain_em(corpus, steps),
            "match": veeramachaneni._matches(corpus),
            "auto": veeramachaneni._fitted(model, corpus, corpus.X, steps),
        }.items()
    }
    assert 0.2 < f1["NB"] < min(f1["EM"], f1["match"]) < f1["auto"]
    assert f1["auto"] > max(f1["EM"], f1["match"])
