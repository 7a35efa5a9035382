"""Hierarchical Dirichlet: V's equations, and what is solved at once against what is iterated."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

import leafwise as lw
from leafwise.models import dirichlet
from leafwise.models._tree_means import responses, solve
from leafwise.models._word_lists import WordLists
from leafwise.models.dirichlet import _left_out, _likeliest_of_the_best
from leafwise.synthetic import make_corpus

TREE = lw.Taxonomy.from_dict({"a": {"x": None, "y": {"deep": None}}, "b": {"z": None}, "c": None})


def corpus(n=40, words=12, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "a/x", "a/y/deep", "b/z", "c"])[np.arange(n) % 5]
    X = rng.poisson(0.6, (n, words))
    for i in range(n):
        X[i, 2 * (i % 5) : 2 * (i % 5) + 2] += rng.poisson(2, 2)
    X[:, -1] = 0
    return X, labels


def dense(model):
    return np.array([model._p_w_given_node(i) for i in range(len(model.taxonomy_))])


def own_counts(X, y):
    return np.array([X[[TREE.index(p) == i for p in y]].sum(axis=0) for i in range(len(TREE))])


@pytest.mark.parametrize("sigma", [0.5, 20.0, [3.0, 40.0, 5.0]])
def test_all_nodes_satisfy_equation_13(sigma):
    X, y = corpus()
    model = lw.HierarchicalDirichlet(TREE, sigma=sigma).fit(X, y)
    n, theta = own_counts(X, y), dense(model)
    seen = n.sum(axis=0) > 0
    np.testing.assert_allclose(theta.sum(axis=1), 1)
    assert (theta[:, ~seen] == 0).all()
    of_node = np.append(0, np.broadcast_to(sigma, 3))[TREE.depth]
    for i in range(len(TREE)):
        children = TREE.children(i)
        up = (
            (1.0, seen.sum()) if i == 0 else (of_node[i] * theta[TREE.parent[i]], of_node[i])
        )  # the root has the uniform prior
        below = ((of_node[children] + 1)[:, None] * theta[children]).sum(axis=0)
        total = up[1] + (of_node[children] + 1).sum() + n[i].sum()
        np.testing.assert_allclose(theta[i][seen], ((up[0] + below + n[i]) / total)[seen])


def test_iterating_equation_13_leads_there():
    X, y = corpus()
    sigma = 8.0
    model = lw.HierarchicalDirichlet(TREE, sigma=sigma).fit(X, y)
    n = own_counts(X, y)[:, :-1]
    theta = np.full(n.shape, 1 / n.shape[1])
    for _ in range(2000):
        for i in range(len(TREE)):
            children = TREE.children(i)
            m = len(children)
            mean = theta[children].mean(axis=0) if m else 0.0
            prior = sigma * theta[TREE.parent[i]] if i else np.ones(n.shape[1])
            theta[i] = (prior + m * (sigma + 1) * mean + n[i]) / (
                prior.sum() + m * (sigma + 1) + n[i].sum()
            )
    np.testing.assert_allclose(dense(model)[:, :-1], theta, rtol=1e-9)


def test_the_update_is_the_matrix_lmmse_of_equation_4():
    tree = lw.Taxonomy.from_dict({"top": {"two": {"four": None, "five": None}}})
    rng = np.random.default_rng(0)
    sigma, k = 6.0, 5
    X = rng.poisson(3, (4, k))
    labels = ["top", "top/two", "top/two/four", "top/two/five"]
    model = lw.HierarchicalDirichlet(tree, sigma=sigma).fit(X, labels)
    theta = {path: model._p_w_given_node(tree.index(path)) for path in labels}
    n = X[1]
    mean = (sigma * theta["top"] + n) / (sigma + n.sum())  # V eq. 5
    spread = (np.diag(mean) - np.outer(mean, mean)) / (sigma + n.sum() + 1)  # V eq. 10
    within = (np.diag(mean) - np.outer(mean, mean) - spread) / (sigma + 1)  # V eq. 11
    joint = np.block([[spread + within, spread], [spread, spread + within]])  # V eq. 8, 9
    gap = np.concatenate([theta["top/two/four"] - mean, theta["top/two/five"] - mean])
    lmmse = mean + np.hstack([spread, spread]) @ np.linalg.pinv(joint) @ gap  # V eq. 4, 7
    np.testing.assert_allclose(theta["top/two"], lmmse, rtol=1e-6)


def test_no_binding_is_naive_bayes_and_endless_binding_is_one_distribution():
    X, y = corpus()
    loose = lw.HierarchicalDirichlet(TREE, sigma=1e-9).fit(X, y)
    n = own_counts(X, y)
    for path in ("a/x", "a/y/deep", "b/z", "c"):
        i = TREE.index(path)
        np.testing.assert_allclose(dense(loose)[i], n[i] / n[i].sum(), atol=1e-8)
    tight = dense(lw.HierarchicalDirichlet(TREE, sigma=1e12).fit(X, y))
    np.testing.assert_allclose(tight, np.broadcast_to(tight[0], tight.shape), atol=1e-8)


def lists_of(X, y):
    counts = sparse.csr_matrix(own_counts(X, y).astype(float))
    lists = WordLists(TREE.parent, counts)
    n = np.zeros(lists.n_pairs)
    n[lists.own] = counts.data
    return lists, n, np.asarray(counts.sum(axis=1)).ravel()


def test_responses_are_the_inverse_of_the_system():
    X, y = corpus()
    sigma = np.array([0, 3, 8, 2, 9, 4, 1, 7], float)
    lists, n, sizes = lists_of(X, y)
    means = solve(lists, n, sizes, sigma, (1.0, 11.0))
    system = np.zeros((8, 8))
    for i in range(8):
        children = TREE.children(i)
        system[i, i] = sizes[i] + (sigma[i] if i else 11.0) + (sigma[children] + 1).sum()
        system[i, children] = -(sigma[children] + 1)
        if i:
            system[i, TREE.parent[i]] = -sigma[i]
    nodes = np.array([5, 0, 2, 4, 1, 7])
    inverse = np.linalg.inv(system)
    np.testing.assert_allclose(responses(TREE, means, nodes), inverse[np.ix_(nodes, nodes)])
    np.testing.assert_allclose(means.gain, np.diag(inverse))


def test_left_out_scores_are_those_of_a_model_without_the_document():
    X, y = corpus()
    weight = np.random.default_rng(1).integers(1, 3, len(y)).astype(float)
    sigma = 5.0
    model = lw.HierarchicalDirichlet(TREE, sigma=sigma).fit(X, y, sample_weight=weight)
    n = own_counts(X * weight[:, None], y)
    columns = np.arange(len(model.nodes_))
    S = sparse.csr_matrix(X.astype(float))
    own = np.array([list(model.classes_).index(label) for label in y])
    theta = np.ascontiguousarray(model._p_w_given_classes(columns).T)
    rise = responses(TREE, model._means, model.nodes_)
    scores = np.empty((len(y), len(columns)))
    pooled = n.sum(axis=0)
    _left_out(0, len(y), S.indptr, S.indices, S.data, weight, own, theta, rise, pooled, scores)
    seen = float((pooled > 0).sum())
    for d in range(0, len(y), 7):
        others = np.arange(len(y)) != d
        lists, _, _ = lists_of(X, y)
        less = own_counts((X * weight[:, None])[others], y[others]).astype(float)
        at = np.zeros(lists.n_pairs)
        for i in range(len(TREE)):
            pairs = slice(lists.indptr[i], lists.indptr[i + 1])
            at[pairs] = less[i][lists.words[pairs]]
        means = solve(lists, at, less.sum(axis=1), np.full(len(TREE), sigma), (1.0, seen))
        slow = lw.HierarchicalDirichlet(TREE, sigma=sigma).fit(X, y)
        slow._means, slow._seen = means, pooled > 0
        p = slow._p_w_given_classes(columns)
        known = less.sum(axis=0) > 0
        expected = np.log(np.where(known, p, 1.0)) @ X[d]
        np.testing.assert_allclose(scores[d], expected)


def test_automatic_sigma_is_near_the_best_for_documents_left_out():
    tree = lw.Taxonomy.from_paths(["a/1", "a/2", "b/1", "b/2"])
    drawn = make_corpus(tree, 60, 200, 30, model="dirichlet", concentration=300, random_state=0)

    def left_out(sigma):
        total = 0.0
        for d in range(len(drawn.y)):
            others = np.arange(len(drawn.y)) != d
            model = lw.HierarchicalDirichlet(
                tree, sigma=sigma, class_prior="uniform", nodes="leaves"
            ).fit(drawn.X[others], np.array(drawn.labels)[others])
            log_p = model.predict_log_proba(drawn.X[[d]])[0]
            total += log_p[list(model.classes_).index(drawn.labels[d])]
        return total

    auto = lw.HierarchicalDirichlet(tree, nodes="leaves").fit(drawn.X, drawn.labels)
    grid = np.geomspace(1, 1e5, 11)
    values = [left_out(sigma) for sigma in grid]
    best = grid[int(np.argmax(values))]
    assert best / 4 < auto.sigma_ < best * 4
    assert left_out(auto.sigma_) > max(values) - 0.03 * abs(max(values))


def test_of_the_best_the_likeliest_is_chosen():
    rng = np.random.default_rng(0)
    good = rng.random(400) < 0.7
    nearly = good.copy()
    nearly[np.flatnonzero(good)[:3]] = False  # three of 400 fewer: chance
    bad = rng.random(400) < 0.4
    right = np.array([good, nearly, bad], float)
    ones = np.ones(400)
    assert _likeliest_of_the_best(right, np.array([-2.0, -1.0, 0.0]), ones) == 1
    assert _likeliest_of_the_best(right, np.array([-1.0, -2.0, 0.0]), ones) == 0
    few = right[:, :4]  # four documents show nothing
    assert _likeliest_of_the_best(few, np.array([-2.0, -1.0, 0.0]), ones[:4]) == 2


def test_automatic_sigma_suits_the_corpus():
    tree = lw.Taxonomy.from_paths(f"{a}/{i}" for a in "abc" for i in "12")
    chosen = []
    for concentration in (20, 2000):  # nodes far from their parents, and near
        drawn = make_corpus(
            tree, 600, 200, 20, model="dirichlet", concentration=concentration, random_state=0
        )
        chosen.append(
            lw.HierarchicalDirichlet(tree, nodes="leaves").fit(drawn.X, drawn.labels).sigma_
        )
    assert chosen[0] < chosen[1]


def test_automatic_sigma_where_there_is_nothing_to_choose():
    X, _ = corpus()
    assert lw.HierarchicalDirichlet().fit([[1, 2]], ["a"]).sigma_ == 1.0
    several = [["a", "c"]] * 5  # no document shows what one class is
    assert lw.HierarchicalDirichlet(TREE).fit(X[:5], several).sigma_ == 1.0


def test_automatic_sigma_looks_at_a_sample(monkeypatch):
    X, y = corpus(n=100)
    whole = lw.HierarchicalDirichlet(TREE, sample_size=100).fit(X, y).sigma_
    assert lw.HierarchicalDirichlet(TREE, sample_size=100, random_state=5).fit(X, y).sigma_ == whole
    seen = []

    def spy(first, last, *arguments):
        seen.append(len(arguments[-1]))
        arguments[-1][first:last] = 0.0

    monkeypatch.setattr(dirichlet, "_left_out", spy)
    lw.HierarchicalDirichlet(TREE, sample_size=20).fit(X, y)
    assert set(seen) == {20}


def test_blocks_add_up_and_keep_the_first_sigma():
    X, y = corpus()
    whole = lw.HierarchicalDirichlet(TREE, sigma=7.0).fit(X, y)
    pieces = lw.HierarchicalDirichlet(TREE, sigma=7.0)
    for cut in np.array_split(np.random.default_rng(0).permutation(40), 4):
        pieces.partial_fit(X[cut], y[cut])
    np.testing.assert_allclose(pieces.predict_log_proba(X), whole.predict_log_proba(X))
    auto = lw.HierarchicalDirichlet(TREE).partial_fit(X[:20], y[:20])
    first = auto.sigma_
    assert auto.partial_fit(X[20:], y[20:]).sigma_ == first


def test_an_inner_node_is_drawn_towards_its_children_and_an_empty_one_is_predicted():
    tree = lw.Taxonomy.from_paths(["a/1", "a/2", "b/1", "b/new"])
    drawn = make_corpus(tree, 400, 100, 30, model="dirichlet", concentration=30, random_state=0)
    known = [i for i, label in enumerate(drawn.labels) if label != "b/new"]
    model = lw.HierarchicalDirichlet(tree, sigma=30, class_prior="uniform").fit(
        drawn.X[known], [drawn.labels[i] for i in known]
    )
    theta = dense(model)
    far, near = theta[tree.index("a/1")], theta[tree.index("b/1")]
    new = theta[tree.index("b/new")]
    assert np.abs(new - near).sum() < np.abs(new - far).sum()
    log_joint = model.predict_log_proba(drawn.X)
    np.testing.assert_allclose(logsumexp(log_joint, axis=1), 0, atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sigma": 0}, r"sigma=0: expected a number above 0, one for each level, or \"auto\"\."),
        ({"sigma": "best"}, r"sigma='best': expected a number above 0"),
        ({"sigma": [1.0, -1.0, 2.0]}, r"sigma=\[1.0, -1.0, 2.0\]: expected a number above 0"),
        ({"sigma": [1.0, 2.0]}, r"sigma has 2 numbers, the tree 3 levels below its root\."),
        ({"sample_size": 0}, r"sample_size=0: expected an integer of at least 1\."),
        ({"random_state": "x"}, r"random_state='x': expected an integer of at least 0, or None\."),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        lw.HierarchicalDirichlet(TREE, **parameters).fit(*corpus())
