"""The EM loop, and the E step against a slow one."""

import numpy as np
import pytest
from scipy import sparse

from leafwise.models import _em
from leafwise.models._em import Rows, Sharing, check_sharing, e_step, fold, run_em
from leafwise.threads import limited


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    n_rows, n_items, n_sources = 6, 9, 4
    dense = rng.integers(0, 4, (n_rows, n_items)).astype(float)
    dense[2] = 0  # a row without anything
    indptr = np.concatenate([[0], np.cumsum((dense > 0).sum(axis=1))])
    item = np.concatenate([np.flatnonzero(row) for row in dense])
    rows = Rows(indptr, item, dense[dense > 0])
    q = rng.dirichlet(np.ones(n_items), n_sources).T.copy()
    q[3, 1] = 0
    weights = rng.dirichlet(np.ones(n_sources), n_rows)
    return rows, q, weights


def slow(rows, q, weights, share, bound_of):
    by_row, by_item, bound = np.zeros(weights.shape), np.zeros(q.shape), 0.0
    for r in range(len(weights)):
        for e in range(rows.indptr[r], rows.indptr[r + 1]):
            joint = weights[r] * q[rows.item[e]]
            counts = rows.mass[e] * share(joint)
            by_row[r] += counts
            by_item[rows.item[e]] += counts
            bound += rows.mass[e] * bound_of(joint)
    return by_row, by_item, bound


@pytest.mark.parametrize("beta", [1.0, 0.6, 2.0])
def test_shares_by_the_tempered_posterior(problem, beta):
    (expected, bound) = e_step(*problem, Sharing(beta), items="shared")
    by_row, by_item, slow_bound = slow(
        *problem,
        lambda joint: joint**beta / (joint**beta).sum(),
        lambda joint: np.log((joint**beta).sum()) / beta,
    )
    np.testing.assert_allclose(expected.by_row, by_row)
    np.testing.assert_allclose(expected.by_item, by_item)
    assert bound == pytest.approx(slow_bound)


def test_classification_em_gives_all_to_the_most_probable(problem):
    (expected, bound) = e_step(*problem, Sharing(variant="cem"), items="shared")
    by_row, by_item, slow_bound = slow(
        *problem, lambda joint: np.arange(4) == joint.argmax(), lambda joint: np.log(joint.max())
    )
    np.testing.assert_array_equal(expected.by_row, by_row)
    np.testing.assert_array_equal(expected.by_item, by_item)
    assert bound == pytest.approx(slow_bound)


def test_stochastic_em_draws_from_the_posterior(problem):
    rows, q, weights = problem
    many = rows._replace(mass=rows.mass * 10_000)
    expected, _ = e_step(many, q, weights, Sharing(variant="sem", seed=3))
    mean, _ = e_step(many, q, weights, Sharing())
    np.testing.assert_array_equal(expected.by_row, np.round(expected.by_row))
    np.testing.assert_allclose(expected.by_row.sum(axis=1), mean.by_row.sum(axis=1))
    n = mean.by_row.sum(axis=1, keepdims=True)
    p = mean.by_row / np.maximum(n, 1)
    deviation = np.abs(expected.by_row - mean.by_row)
    assert (deviation <= 5 * np.sqrt(n * p * (1 - p)) + 1e-9).all()
    assert (deviation > 0).any()


def test_stochastic_em_is_reproducible_and_shares_fractions(problem):
    rows, q, weights = problem
    rows = rows._replace(mass=rows.mass + 0.5)
    first, second, other = (
        e_step(rows, q, weights, Sharing(variant="sem", seed=seed))[0].by_row for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()
    total = np.add.reduceat(rows.mass, rows.indptr[[0, 1, 3, 4, 5]])
    np.testing.assert_allclose(first.sum(axis=1)[[0, 1, 3, 4, 5]], total)


def test_a_source_of_probability_zero_is_never_drawn(problem):
    rows, q, weights = problem
    for seed in range(20):
        expected, _ = e_step(rows, q, weights, Sharing(variant="sem", seed=seed), items="shared")
        assert expected.by_item[3, 1] == 0


def test_a_rows_own_source_has_its_own_probability(problem):
    rows, q, weights = problem
    q = np.column_stack([q, q[:, :2]])  # a source per row
    weights = np.column_stack([weights, weights[:, :2]])
    own = np.random.default_rng(1).random(len(rows.mass))
    expected, bound = e_step(rows, q, weights, Sharing(), own=own)
    by_row = np.zeros(weights.shape)
    slow_bound = 0.0
    for r in range(len(weights)):
        for e in range(rows.indptr[r], rows.indptr[r + 1]):
            joint = weights[r] * q[rows.item[e]]
            joint[r] = weights[r, r] * own[e]
            by_row[r] += rows.mass[e] * joint / joint.sum()
            slow_bound += rows.mass[e] * np.log(joint.sum())
    np.testing.assert_allclose(expected.by_row, by_row)
    assert bound == pytest.approx(slow_bound)


def test_what_no_source_has_is_passed_over():
    rows = Rows(np.array([0, 2]), np.array([0, 1]), np.array([3.0, 5.0]))
    q = np.array([[0.5, 0.5], [0.0, 0.0]])
    expected, bound = e_step(rows, q, np.array([[0.4, 0.6]]), Sharing())
    np.testing.assert_allclose(expected.by_row, [[1.2, 1.8]])
    assert bound == pytest.approx(3 * np.log(0.5))


@pytest.mark.parametrize("items", ["", "shared", "apart"])
def test_threads_and_blocks_change_nothing(items, monkeypatch):
    rng = np.random.default_rng(0)
    n_rows, n_sources = 50, 3
    lengths = rng.integers(0, 40, n_rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    n = int(indptr[-1])
    item = np.arange(n) if items == "apart" else rng.integers(0, 20, n)
    rows = Rows(indptr, item, rng.random(n))
    q = rng.random((n if items == "apart" else 20, n_sources))
    weights = rng.random((n_rows, n_sources))
    results = []
    for threads, block in ((1, 1 << 16), (3, 64), (2, 7)):
        monkeypatch.setattr(_em, "_BLOCK", block)
        with limited(threads):
            results.append(e_step(rows, q, weights, Sharing(), items=items))
    for expected, bound in results[1:]:
        np.testing.assert_allclose(expected.by_row, results[0][0].by_row, rtol=1e-12)
        assert bound == pytest.approx(results[0][1], rel=1e-12)
        if items:
            np.testing.assert_allclose(expected.by_item, results[0][0].by_item, rtol=1e-12)
        else:
            assert expected.by_item is None


# ---- the loop: a parameter x, moved half way to 1 at each step, with the bound -1 - (1 - x)² ----


def halves(x, sharing):
    return (x, sharing), -1 - (1 - x) ** 2


def move(statistics, before):
    return before + (1 - before) / 2


def test_stops_when_the_bound_settles():
    fitted = run_em(halves, move, 0.0, max_iter=100, tol=1e-3)
    assert fitted.converged
    assert fitted.n_steps == 6  # from step 5 to 6 the bound rises by less than a thousandth
    assert fitted.parameters == 1 - 0.5**fitted.n_steps
    assert fitted.bounds == [-1 - 0.25**i for i in range(fitted.n_steps + 1)]


def test_takes_every_step_without_a_tolerance():
    fitted = run_em(halves, move, 0.0, max_iter=7)
    assert (fitted.n_steps, fitted.converged, fitted.parameters) == (7, False, 1 - 0.5**7)
    assert run_em(halves, move, 0.0, max_iter=0) == (0.0, [], 0, False)


def test_goes_through_a_schedule():
    seen = []

    def record(x, sharing):
        seen.append(sharing)
        return halves(x, sharing)

    run_em(record, move, 0.0, max_iter=2, beta=(0.5, 1.0), variant="sem", seed=10)
    assert [s.beta for s in seen] == [0.5, 0.5, 1.0, 1.0]
    assert [s.seed for s in seen] == [10, 11, 12, 13]  # a new draw at each step
    assert {s.variant for s in seen} == {"sem"}


def test_keeps_what_a_judge_liked_best():
    fitted = run_em(halves, move, 0.0, max_iter=10, judge=lambda x: -abs(x - 0.8))
    assert fitted.parameters == 0.75
    assert fitted.n_steps == 2
    assert fitted.converged


@pytest.mark.parametrize("beta", [0, -1.0, "1", [], [1.0, 0.0], None, np.inf])
def test_beta_must_be_positive(beta):
    with pytest.raises(ValueError, match=r"beta=.*: expected a number above 0, or several"):
        check_sharing(beta, "em")


def test_variant_must_be_known():
    with pytest.raises(ValueError, match=r"variant='vem': expected \"em\", \"cem\" or \"sem\"\."):
        check_sharing(1.0, "vem")


@pytest.mark.parametrize("n_sources", [1, 3, 8, 21])
@pytest.mark.parametrize("own", [0.0, 1.0])
def test_folding_is_em_with_fixed_sources(n_sources, own, monkeypatch):
    """One row after another, as the driver does it for all rows step by step."""
    monkeypatch.setattr(_em, "_FOLDED", 25)
    rng = np.random.default_rng(n_sources)
    dense = rng.poisson(0.6, (40, 30)).astype(float)
    dense[7] = 0.0
    dense[8] = np.eye(1, 30)
    X = sparse.csr_matrix(dense)
    X.data[::11] = 0.0  # counts that are there, and say nothing
    q = rng.dirichlet(np.ones(30), n_sources).T
    q[:3] = 0.0  # words that no source has
    start, numerator, denominator = rng.random((3, n_sources)) + 0.1
    rows = Rows.of(X)

    def maximise(expected, before):
        new = numerator * expected.by_row / (denominator + own * expected.by_row)
        return np.where(expected.by_row.any(axis=1, keepdims=True), new, before)

    begin = np.tile(start, (40, 1))
    slow = run_em(lambda w, s: e_step(rows, q, w, s), maximise, begin, max_iter=6)
    found = fold(rows, q, start, numerator, denominator, own, 6)
    np.testing.assert_allclose(found, slow.parameters, rtol=1e-10)
    assert (found[[7, 8]] == start).all()
    assert not (found[:7] == start).all(axis=1).any()
    np.testing.assert_array_equal(fold(rows, q, start, numerator, denominator, own, 0), begin)
