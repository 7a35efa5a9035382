"""Labels lent to classes that have none, where documents seem to belong there."""

import numpy as np
import pytest
from scipy import sparse

import leafwise as lw
from leafwise.models import _lent

N, CLASSES = 4000, 10


@pytest.fixture(scope="module")
def sorted_by_keywords():
    """What 4,000 documents are of, and what keywords say, which are right six times of ten."""
    rng = np.random.default_rng(0)
    truth = rng.integers(CLASSES, size=N)
    best = np.where(rng.random(N) < 0.6, truth, rng.integers(CLASSES, size=N))
    return truth, best


def labels_of(truth, rows, n_classes=CLASSES):
    cells = (np.ones(len(rows)), (rows, truth[rows]))
    return sparse.csr_matrix(cells, (len(truth), n_classes))


def passed_over(truth, best, rows, found=None):
    found = np.ones(len(best), bool) if found is None else found
    return _lent.passed_over(best, found, labels_of(truth, rows))


def test_classes_that_labels_have_passed_over_are_found(sorted_by_keywords):
    truth, best = sorted_by_keywords
    rows = np.flatnonzero(truth < 5)[:300]
    rest = np.setdiff1d(np.arange(N), rows)
    share = passed_over(truth, best, rows)
    # Of documents that do belong there keywords find so many, beyond those put there by chance.
    by_chance = 0.4 * 0.5
    expected = (truth[rest] >= 5).mean() * (0.6 + by_chance - by_chance) / (1 - by_chance)
    assert share == pytest.approx(expected, abs=0.05)
    half = np.arange(N) % 2 == 0  # documents without a keyword say nothing
    assert passed_over(truth, best, rows, half) == pytest.approx(share, abs=0.1)
    assert passed_over(truth, best, rows, np.zeros(N, bool)) == 0


def test_labels_at_random_pass_nothing_over():
    """Small classes have no label by chance, and Good and Turing say how many documents have."""
    sizes = 1 / np.arange(1, CLASSES + 1) ** 2
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        truth = rng.choice(CLASSES, p=sizes / sizes.sum(), size=N)
        best = np.where(rng.random(N) < 0.6, truth, rng.integers(CLASSES, size=N))
        rows = rng.permutation(N)[:40]
        assert len(np.unique(truth[rows])) < CLASSES
        found.append(passed_over(truth, best, rows) > 0)
    assert np.mean(found) < 0.07  # by chance one and a half standard errors are so rare


def test_few_labels_and_keywords_that_say_nothing_are_no_sign(sorted_by_keywords):
    truth, _ = sorted_by_keywords
    best = np.random.default_rng(2).integers(CLASSES, size=N)
    rows = np.flatnonzero(truth < 5)[:300]
    assert passed_over(truth, best, rows) == 0
    assert passed_over(truth, truth, np.flatnonzero(truth < 2)[:1]) == 0
    assert passed_over(truth, truth, np.arange(300)) == 0  # every class has some


def test_lent_labels_are_from_the_surest_to_the_least_sure():
    best = np.repeat([0, 1, 2, 3], [30, 30, 30, 3])
    sure = np.tile(np.arange(31.0), 3)
    rows = np.array([0, 1, 2, 30, 31, 32, 33, 60])  # 60 is of class 0, whatever keywords say
    truth = np.where(np.arange(93) == 60, 0, best)
    lent = _lent.lend(best, sure, labels_of(truth, rows, 5))
    labelled = np.flatnonzero(np.diff(lent.indptr))
    assert lent.shape == (93, 5)
    np.testing.assert_array_equal(lent.indices, best[labelled])
    # Four for each, as others have on average, or as many as there are.
    np.testing.assert_array_equal(np.bincount(lent.indices, minlength=5), [0, 0, 4, 3, 0])
    there = np.setdiff1d(np.flatnonzero(best == 2), rows)
    by_sureness = there[np.argsort(-sure[there])]
    np.testing.assert_array_equal(np.sort(by_sureness[[0, 9, 18, 28]]), labelled[:4])
    assert not np.isin(labelled, rows).any()


def test_scores_in_blocks_are_those_of_all(monkeypatch):
    X = sparse.random_array((50, 6), density=0.5, rng=0, format="csr")
    best, top = _lent.best_of(lambda rows: rows.toarray(), X, 6)
    monkeypatch.setattr(_lent, "BLOCK_SCORES", 40)
    found = _lent.best_of(lambda rows: rows.toarray(), X, 6)
    np.testing.assert_array_equal(found, (best, top))
    np.testing.assert_array_equal(best, X.toarray().argmax(axis=1))


@pytest.fixture(scope="module")
def half_labelled():
    """800 noisy documents of eight classes with keywords; labels of many of the first four."""
    rng = np.random.default_rng(0)
    own = [[f"{name}{i}" for i in range(8)] for name in "abcdefgh"]
    common = [f"common{i}" for i in range(20)]
    truth = np.arange(800) % 8
    texts = []
    for c in truth:
        other, n = rng.integers(8), rng.integers(8, 25)
        kinds = rng.choice(3, p=[0.3, 0.15, 0.55], size=n)
        texts.append(" ".join(rng.choice([own[c], own[other], common][kind]) for kind in kinds))
    paths = np.array([words[0][0] for words in own])[truth]
    tree = lw.Taxonomy.from_dict({words[0][0]: words[:2] for words in own})
    known = (truth < 4) & (np.arange(800) // 8 % 5 > 0)
    labels = [label if k else None for label, k in zip(paths.tolist(), known)]
    return tree, texts, paths, labels, known


@pytest.mark.parametrize("settings", [{}, {"spread": False}])
def test_nodes_that_have_keywords_alone_stay_in_use(half_labelled, settings):
    tree, texts, truth, labels, known = half_labelled
    nothing = lw.TaxonomyClassifier(tree, **settings).fit(texts)
    model = lw.TaxonomyClassifier(tree, **settings).fit(texts, labels)
    others = ~np.isin(truth, list({label for label in labels if label}))
    before, after = (np.mean(m.transduction_[others] == truth[others]) for m in (nothing, model))
    assert after > before - 0.02
    found, alone = (m.transduction_ == truth for m in (model, nothing))
    assert found[~known].mean() > alone[~known].mean() - 0.02
    assert any(
        line.startswith("Labels were not given at random: 4 nodes") for line in model.report_
    )
    # A lent label is a guess, and not the last word.
    assert (model.transduction_[known] == truth[known]).all()
    every = lw.TaxonomyClassifier(tree, **settings).fit(texts, truth.tolist())
    assert not any("at random" in line for line in every.report_)


def test_progress_counts_what_is_lent(half_labelled):
    tree, texts, _, labels, _ = half_labelled
    told = []
    model = lw.TaxonomyClassifier(tree)
    model.on_progress = lambda what, done, total: told.append((done, total))
    model.fit(texts, labels)
    assert [done for done, _ in told] == list(range(told[0][1] + 1))
