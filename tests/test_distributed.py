"""Models on a real Dask cluster are what they are here, whatever happens to the workers."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import leafwise as lw
from leafwise.exceptions import CorpusError, LeafwiseError
from leafwise.synthetic import make_corpus

pytest.importorskip("distributed", reason="Dask is not installed")

from leafwise import distributed as cluster
from leafwise._cluster import result_of

TREE = lw.Taxonomy.from_paths(["a/x", "a/y", "b/x", "b/y", "c"])
N, N_WORDS = 240, 300


@pytest.fixture(scope="module")
def client():
    with cluster.connect("local:3") as client:
        yield client


@pytest.fixture(scope="module")
def drawn():
    return make_corpus(TREE, N, N_WORDS, 30, concentration=20.0, random_state=1)


@pytest.fixture(scope="module")
def texts(drawn):
    return [" ".join(f"word{w}" for w in np.repeat(*row)) for row in rows_of(drawn.X)]


def rows_of(X):
    X = sparse.csr_matrix(X)
    return [(X.indices[a:b], X.data[a:b].astype(int)) for a, b in zip(X.indptr[:-1], X.indptr[1:])]


def pairs(X, y, n=4):
    """Word counts and labels in blocks, one of them empty."""
    rows = [*np.array_split(np.arange(X.shape[0]), n), np.empty(0, int)]
    return [(sparse.csr_matrix(X)[r], [y[i] for i in r]) for r in rows]


def some(labels, n=60):
    return [label if i % (N // n) == 0 else None for i, label in enumerate(labels)]


def assert_same(one, other, X):
    np.testing.assert_allclose(
        one.predict_log_proba(X), other.predict_log_proba(X), rtol=1e-8, atol=1e-8
    )


# ---- the same as on one machine ----

COUNTED = [
    lw.NaiveBayes(TREE),
    lw.NaiveBayes(),
    lw.HierarchicalShrinkage(TREE),
    lw.GeneralShrinkage(TREE),
    lw.HierarchicalMixture(TREE),
    lw.HierarchicalMixture(TREE, holdout=0.3, weights="heldout"),
    lw.HierarchicalDirichlet(TREE),
    lw.HPLC(TREE),
    lw.PLC(),
]


@pytest.mark.parametrize("model", COUNTED, ids=lambda m: f"{type(m).__name__}-{m.taxonomy is None}")
def test_models_of_counts(client, drawn, model):
    whole = clone(model).fit(drawn.X, drawn.labels)
    fitted = cluster.fit(clone(model), pairs(drawn.X, drawn.labels), client=client)
    assert fitted.classes_.tolist() == whole.classes_.tolist()
    assert_same(fitted, whole, drawn.X)


@pytest.mark.parametrize("sigma", ["auto", 30.0])
def test_em_with_labels_for_some(client, drawn, sigma):
    model = lw.HierarchicalDirichlet(TREE, sigma=sigma, nodes="leaves")
    y = some(drawn.labels)
    whole = clone(model).fit(drawn.X, y)
    fitted = cluster.fit(clone(model), pairs(drawn.X, y), client=client)
    assert (fitted.n_iter_, fitted.sigma_) == (whole.n_iter_, whole.sigma_)
    assert fitted.n_iter_ > 1
    assert_same(fitted, whole, drawn.X)


def test_keywords_find_texts_on_workers(client, drawn, texts):
    """A pipeline without a label: the counter that the tree's keywords are read by is its own."""
    tree = keyword_tree(drawn)
    here, there = (WORDS() for _ in range(2))
    whole = make_pipeline(here, lw.HierarchicalDirichlet(tree, vocabulary=here, nodes="leaves"))
    fitted = make_pipeline(there, lw.HierarchicalDirichlet(tree, vocabulary=there, nodes="leaves"))
    whole.fit(texts, [None] * N)
    cluster.fit(fitted, bag(texts, [None] * N), client=client)
    assert fitted[-1].n_iter_ == whole[-1].n_iter_ > 1
    assert_same(fitted, whole, texts)
    assert fitted.score(texts, drawn.labels) > 0.5


def WORDS(**settings):
    return lw.WordCounter(min_count=2, **settings)


def keyword_tree(drawn):
    counts = np.zeros((len(TREE), N_WORDS))
    for x, label in zip(drawn.X.toarray(), drawn.labels):
        counts[TREE.index(label)] += x
    keywords = [()] * len(TREE)
    for leaf in TREE.leaves.tolist():
        share = counts[leaf] / counts.sum(axis=0).clip(1)
        best = np.argsort(-share * np.sqrt(counts[leaf]))[:3]
        keywords[leaf] = tuple(f"word{w}" for w in best)
    return lw.Taxonomy(TREE.names, TREE.parent.tolist(), keywords)


@pytest.mark.parametrize("settings", [{"shape": "alike"}, {"tree": TREE}, {"unit": "document"}])
def test_trees_grow(client, drawn, settings):
    model = lw.HPLSA(3, max_iter=10, betas=[0.7, 1.0], **settings)
    whole = clone(model).fit(drawn.X)
    blocks = [X for X, _ in pairs(drawn.X, drawn.labels, 2)]
    fitted = cluster.fit(clone(model), blocks, client=client)
    assert fitted.tree_.paths == whole.tree_.paths
    np.testing.assert_allclose(
        fitted.p_leaf_given_document_, whole.p_leaf_given_document_, atol=1e-5
    )


@pytest.mark.parametrize("similarity", ["cosine", "kl", "lm"])
def test_the_graph(client, drawn, similarity, monkeypatch):
    whole = lw.neighbor_graph(drawn.X, 7, similarity)
    graph = cluster.neighbor_graph(drawn.X, 7, similarity, client=client)
    assert (graph.indices == whole.indices).all()
    np.testing.assert_allclose(graph.data, whole.data, rtol=1e-9)
    # Where documents are many, they are searched in parts, too.
    monkeypatch.setattr("leafwise.models._top_k._DOCUMENTS", 50)
    parts = cluster.neighbor_graph(drawn.X, 7, similarity, client=client)
    assert (parts.indices == whole.indices).all()
    np.testing.assert_allclose(parts.data, whole.data, rtol=1e-9)


def test_the_approximate_graph(client, drawn):
    whole = lw.neighbor_graph(drawn.X, 5, approximate=20)
    graph = cluster.neighbor_graph(drawn.X, 5, client=client, approximate=20)
    assert (graph.indices == whole.indices).all()


def test_harmonic_functions(client, drawn):
    model = lw.HarmonicClassifier(TREE, k=8)
    y = some(drawn.labels, 20)
    whole = clone(model).fit(drawn.X, y)
    fitted = cluster.fit(clone(model), pairs(drawn.X, y), client=client)
    np.testing.assert_allclose(fitted.label_distributions_, whole.label_distributions_, atol=1e-5)
    assert (fitted.transduction_ == whole.transduction_).all()


def test_neighbours_vote(client, drawn):
    model = lw.NeighborsClassifier(TREE, k=8)
    whole = clone(model).fit(drawn.X, drawn.labels)
    fitted = cluster.fit(clone(model), pairs(drawn.X, drawn.labels), client=client)
    blocks = [X for X, _ in pairs(drawn.X, drawn.labels)[:-1]]
    found = cluster.predict(fitted, blocks, client=client)
    assert found.tolist() == whole.predict(drawn.X).tolist()


def test_prediction(client, drawn, texts):
    y = some(drawn.labels)
    model = lw.TaxonomyClassifier(TREE, keywords=False).fit(texts, y)
    data = bag(texts, y)
    assert cluster.predict(model, data, client=client).tolist() == model.predict(texts).tolist()
    proba = cluster.predict(model, data, client=client, method="predict_proba")
    np.testing.assert_allclose(proba, model.predict_proba(texts), atol=1e-12)
    best, sure = cluster.predict(model, data, client=client, method="top_k")
    assert best.tolist() == model.top_k(texts)[0].tolist()
    assert sure.shape == (N, 3)


# ---- where texts come from ----


def bag(texts, labels, n=5):
    import dask.bag

    return dask.bag.from_sequence(list(zip(texts, labels)), npartitions=n)


@pytest.fixture(scope="module")
def expected(drawn, texts):
    return make_pipeline(WORDS(), lw.HierarchicalMixture(TREE)).fit(texts, drawn.labels)


@pytest.mark.parametrize("settings", [{}, {"ngram_range": (1, 2)}, {"stemmer": "english"}])
def test_one_vocabulary(client, texts, settings):
    whole = WORDS(max_df=0.5, **settings).fit(texts)
    counter = cluster.fit(WORDS(max_df=0.5, **settings), bag(texts, texts), client=client)
    assert counter.vocabulary_ == whole.vocabulary_
    assert (counter.document_counts_ == whole.document_counts_).all()
    assert counter.n_documents_ == N


@pytest.mark.parametrize("kind", ["bag of pairs", "bag of mappings", "dataframe", "csv", "parquet"])
def test_data(client, drawn, texts, expected, kind, tmp_path):
    import dask.bag
    import dask.dataframe

    frame = pd.DataFrame({"body": texts, "label": drawn.labels})
    options = {}
    if kind == "bag of pairs":
        data = bag(texts, drawn.labels)
    elif kind == "bag of mappings":
        data = dask.bag.from_sequence(frame.to_dict("records"), npartitions=3)
        options = {"text": "body"}
    elif kind == "dataframe":
        data = dask.dataframe.from_pandas(frame, npartitions=3)
    else:
        for i, part in enumerate(np.array_split(np.arange(N), 3)):
            some_rows = frame.iloc[part]
            if kind == "csv":
                some_rows.to_csv(tmp_path / f"part-{i}.csv", index=False)
            else:
                some_rows.to_parquet(tmp_path / f"part-{i}.parquet", index=False)
        data = tmp_path
    model = make_pipeline(WORDS(), lw.HierarchicalMixture(TREE))
    cluster.fit(model, data, client=client, **options)
    assert model[0].vocabulary_ == expected[0].vocabulary_
    assert_same(model, expected, texts)


def test_a_dataframe_without_some_labels(client, drawn, texts):
    import dask.dataframe

    some_labels = [label if i % 3 == 0 else None for i, label in enumerate(drawn.labels)]
    expected = make_pipeline(WORDS(), lw.HierarchicalDirichlet(TREE)).fit(texts, some_labels)
    for missing in (None, np.nan, pd.NA, ""):
        labels = [missing if label is None else label for label in some_labels]
        frame = pd.DataFrame({"text": texts, "label": labels})
        data = dask.dataframe.from_pandas(frame, npartitions=3)
        model = make_pipeline(WORDS(), lw.HierarchicalDirichlet(TREE))
        cluster.fit(model, data, client=client)
        assert_same(model, expected, texts)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("dataframe", r"A text is (<NA>|nan|None) \(.*\), expected a string\."),
        ("bag", 'The bag holds a mapping without a "text": it has body, label. Say which key hol'),
    ],
)
def test_texts_that_are_not_there(client, kind, message):
    import dask.bag
    import dask.dataframe

    frame = pd.DataFrame({"text": ["word1 word2", None], "label": ["a", "b"]})
    data = dask.dataframe.from_pandas(frame, npartitions=1)
    if kind == "bag":
        data = dask.bag.from_sequence([{"body": "word1", "label": "a"}], npartitions=1)
    with pytest.raises(LeafwiseError, match=message):
        cluster.fit(make_pipeline(WORDS(), lw.NaiveBayes()), data, client=client)


def test_bad_rows_are_reported_as_elsewhere(client, drawn, texts, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for i in range(2):
        rows = [f'"{text}",{label}' for text, label in zip(texts[i::2], drawn.labels[i::2])]
        rows.insert(3, '"word1 word2",nowhere')
        (folder / f"{i}.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    model = make_pipeline(WORDS(), lw.NaiveBayes(TREE))
    options = {"client": client, "taxonomy": TREE}
    with pytest.raises(CorpusError, match=r'0\.csv, line 5: .*"nowhere"'):
        cluster.fit(model, folder, **options)
    listing = tmp_path / "bad.csv"
    with pytest.warns(UserWarning, match=r"Left out 2 bad rows; .*bad\.csv says why"):
        cluster.fit(model, folder, skip_bad=True, bad_rows=listing, **options)
    assert model.score(texts, drawn.labels) > 0.8
    found = pd.read_csv(listing)
    assert found["line"].tolist() == [5, 5]
    assert [os.path.basename(one) for one in found["source"]] == ["0.csv", "1.csv"]


# ---- errors ----


def test_what_is_refused(client, drawn, texts):
    counts = pairs(drawn.X, drawn.labels)
    with pytest.raises(TypeError, match="TaxonomyClassifier is not fitted on a cluster"):
        cluster.fit(lw.TaxonomyClassifier(TREE), bag(texts, texts), client=client)
    with pytest.raises(TypeError, match="NaiveBayes alone takes word counts"):
        cluster.fit(lw.NaiveBayes(TREE), "docs", client=client)
    with pytest.raises(TypeError, match="data is a int: expected the path of files"):
        cluster.fit(make_pipeline(WORDS(), lw.NaiveBayes(TREE)), 3, client=client)
    with pytest.raises(ValueError, match="Block 0 has 60 documents and 3 labels"):
        cluster.fit(lw.NaiveBayes(), [(counts[0][0], ["a", "b", "c"])], client=client)
    with pytest.raises(ValueError, match="Block 1 has 5 columns, the first 300"):
        cluster.fit(lw.NaiveBayes(), [counts[0], (np.ones((2, 5)), ["a", "b"])], client=client)
    with pytest.raises(ValueError, match="No document has a label"):
        cluster.fit(lw.NaiveBayes(), [(counts[0][0], [None] * 60)], client=client)
    with pytest.raises(ValueError, match='NaiveBayes has no method "guess"'):
        cluster.predict(lw.NaiveBayes(), counts, client=client, method="guess")
    with pytest.raises(ValueError, match='n_leaves="auto" needs all documents in memory'):
        cluster.fit(lw.HPLSA("auto"), counts, client=client)
    with pytest.raises(LeafwiseError, match=r"A text is 3 .int., expected a string"):
        cluster.fit(WORDS(), bag([3], ["a"], 1), client=client)
    with pytest.raises(ValueError, match="No word is left to count in 2 documents"):
        cluster.fit(WORDS(), bag(["...", "!"], ["a", "b"], 2), client=client)


def test_wrong_arguments(client, texts):
    model = make_pipeline(WORDS(), lw.NaiveBayes(TREE))
    message = "client is a str: expected a distributed.Client, as in: with leafwise.distributed.con"
    with pytest.raises(TypeError, match=message):
        cluster.fit(model, bag(texts, texts), client="tcp://10.0.0.1:8786")
    message = (
        r'There is no option "textt" to read documents\. Did you mean "text"\? Options: text, '
    )
    for call in (cluster.fit, cluster.predict):
        with pytest.raises(TypeError, match=message):
            call(model, "docs", client=client, textt="body")
    with pytest.raises(TypeError, match="encoding is an option for files alone"):
        cluster.fit(model, bag(texts, texts), client=client, encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lw.HPLSA("auto"), 'n_leaves="auto" needs all documents in memory: expected a number'),
        (lw.NaiveBayes(TREE, alpha=-1), "alpha=-1: expected a number above 0"),
        (lw.NaiveBayes(TREE, nodes="some"), "nodes='some'"),
        (lw.HarmonicClassifier(tol=-1), "tol=-1: expected"),
    ],
)
def test_a_model_is_refused_before_its_documents_are_read(client, model, message):
    with pytest.raises(ValueError, match=message):
        cluster.fit(make_pipeline(WORDS(), model), "/no/such/folder", client=client)


def test_tasks_of_a_fit_that_fails_are_let_go(client, texts):
    model = make_pipeline(WORDS(), lw.HierarchicalDirichlet(vocabulary=["word1"]))
    before = set(client.futures)
    message = "vocabulary is for a tree's keywords, and there is no taxonomy"
    with pytest.raises(ValueError, match=message) as error:
        cluster.fit(model, bag(texts, ["a"] * N, 40), client=client)
    until = time.monotonic() + 60
    while client.futures.keys() - before:  # `error` has the frames in which they were begun
        assert time.monotonic() < until, "they are kept"
        time.sleep(0.01)
    assert error.tb is not None


def test_a_fit_that_fails_is_quiet():
    """Though tasks are under way when the block is left."""
    code = """
import dask.bag
from sklearn.pipeline import make_pipeline
import leafwise as lw
from leafwise.distributed import connect, fit

if __name__ == "__main__":
    model = lw.HierarchicalDirichlet(vocabulary=["word"])
    texts = dask.bag.from_sequence([(f"word {i}", "a") for i in range(200)], npartitions=100)
    try:
        with connect("local:2") as client:
            fit(make_pipeline(lw.WordCounter(), model), texts, client=client)
    except ValueError as error:
        print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "vocabulary is for a tree's keywords, and there is no taxonomy.\n"
    assert ended.stderr == ""


# ---- workers that are lost ----


def killing(client, work):
    """Do work while a worker is killed in the middle of it; return what came of it."""
    begun = threading.Event()
    killed = []

    def transitions():
        return client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)

    def kill():
        begun.wait()
        before = transitions()
        while transitions() < before + 40:
            time.sleep(0.002)
        pids = client.run(os.getpid)
        victim = next(iter(pids.values()))
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    begun.set()
    result = work()
    done_before_kill = not killed
    thread.join(60)
    assert not done_before_kill, "the work was done before a worker could be killed"
    client.wait_for_workers(2, timeout=60)  # the third comes back when it can
    return result


@pytest.fixture(scope="module")
def many():
    """Enough documents that the work is still under way when a worker is killed."""
    return make_corpus(TREE, 6000, 3000, 60, concentration=20.0, random_state=2)


def in_blocks(many, y):
    return pairs(many.X, y, 24)


@pytest.mark.parametrize(
    "model",
    [
        lw.NaiveBayes(TREE),
        lw.HierarchicalShrinkage(TREE),
        lw.HierarchicalMixture(TREE),
        lw.HierarchicalDirichlet(TREE),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_worker_is_killed_while_classes_are_counted(client, many, model):
    whole = clone(model).fit(many.X, many.labels)
    fitted = killing(
        client,
        lambda: cluster.fit(clone(model), in_blocks(many, many.labels), client=client),
    )
    assert_same(fitted, whole, many.X[:500])


def test_a_worker_is_killed_in_em(client, many):
    y = [label if i % 50 == 0 else None for i, label in enumerate(many.labels)]
    model = lw.HierarchicalDirichlet(TREE, sigma=100.0, nodes="leaves", tol=0.0, max_iter=8)
    whole = clone(model).fit(many.X, y)
    fitted = killing(client, lambda: cluster.fit(clone(model), in_blocks(many, y), client=client))
    assert fitted.n_iter_ == whole.n_iter_
    assert_same(fitted, whole, many.X[:500])


def test_a_worker_is_killed_while_a_tree_grows(client, many):
    model = lw.HPLSA(tree=TREE, betas=[1.0], max_iter=8)
    whole = clone(model).fit(many.X)
    blocks = [X for X, _ in in_blocks(many, many.labels)]
    fitted = killing(client, lambda: cluster.fit(clone(model), blocks, client=client))
    np.testing.assert_allclose(
        fitted.p_leaf_given_document_, whole.p_leaf_given_document_, atol=1e-6
    )


def test_a_result_whose_worker_ends_while_it_is_fetched(client, monkeypatch):
    """Which cancels what fetches it, within Dask."""
    future = client.submit(sum, [3, 4])
    fetch, n_tries = future._result, []

    async def cut_off(*arguments):
        n_tries.append(1)
        if len(n_tries) == 1:
            raise asyncio.CancelledError
        return await fetch(*arguments)

    monkeypatch.setattr(future, "_result", cut_off)
    assert result_of(client, future) == 7
    assert len(n_tries) == 2


def test_a_worker_is_killed_while_words_are_counted(client, many):
    texts = [" ".join(f"word{w}" for w in np.repeat(*row)) for row in rows_of(many.X)]
    whole = lw.WordCounter(min_count=2).fit(texts)
    counter = killing(
        client,
        lambda: cluster.fit(lw.WordCounter(min_count=2), bag(texts, texts, 24), client=client),
    )
    assert counter.vocabulary_ == whole.vocabulary_
    assert (counter.document_counts_ == whole.document_counts_).all()


def test_a_worker_is_killed_while_neighbours_are_found(client, many):
    whole = lw.neighbor_graph(many.X, 10)
    graph = killing(client, lambda: cluster.neighbor_graph(many.X, 10, client=client))
    assert (graph.indices == whole.indices).all()


def test_a_worker_is_killed_while_labels_spread(client, many):
    y = [label if i % 50 == 0 else None for i, label in enumerate(many.labels)]
    model = lw.HarmonicClassifier(TREE, k=10)
    whole = clone(model).fit(many.X, y)
    fitted = killing(client, lambda: cluster.fit(clone(model), in_blocks(many, y), client=client))
    np.testing.assert_allclose(fitted.label_distributions_, whole.label_distributions_, atol=1e-5)


def test_a_worker_is_killed_while_documents_are_classified(client, many):
    model = lw.HierarchicalMixture(TREE).fit(many.X, many.labels)
    blocks = [X for X, _ in in_blocks(many, many.labels)[:-1]]
    found = killing(
        client,
        lambda: cluster.predict(model, blocks, client=client, method="predict_proba"),
    )
    np.testing.assert_allclose(found, model.predict_proba(many.X), atol=1e-12)


def test_a_client_that_is_closed():
    with cluster.connect("local:1") as client:
        pass
    with pytest.raises(LeafwiseError, match="The client is closed: connect again"):
        cluster.fit(lw.NaiveBayes(TREE), [], client=client)
