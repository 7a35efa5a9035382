"""Hierarchical Dirichlet: V's equations, and what is solved at once against what is iterated."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

import leafwise as lw
from leafwise.models import _dirichlet_tree, _sigma, _word_lists, dirichlet
from leafwise.models._counts import best_columns
from leafwise.models._sigma import left_out_scores, likeliest_of_the_best
from leafwise.models._tree_means import responses, solve
from leafwise.models._word_lists import WordLists
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


@pytest.mark.parametrize("at_a_time", [5, 1 << 17])
@pytest.mark.parametrize(("n_words", "density"), [(40, 0.5), (9000, 0.002)])
def test_lists_hold_the_words_of_all_below(monkeypatch, n_words, density, at_a_time):
    monkeypatch.setattr(_word_lists, "_PAIRS", at_a_time)
    rng = np.random.default_rng(0)
    # A forest in any order: two tops, chains, a source without words, one with nothing below.
    parent = np.array([3, 0, 0, -1, 3, 6, -1, 5, 4])
    counts = sparse.random(9, n_words, density, "csr", random_state=rng)
    counts = sparse.csr_matrix(
        sparse.vstack([counts[:7], sparse.csr_matrix((1, n_words)), counts[8:]])
    )
    lists = WordLists(parent, counts)
    below = {s: [s] for s in range(9)}
    for s in (7, 8, 1, 2, 0, 4, 5):
        below[parent[s]] += below[s]
    for s in range(9):
        words = lists.words[lists.indptr[s] : lists.indptr[s + 1]]
        expected = np.unique(np.concatenate([counts[i].indices for i in below[s]]))
        np.testing.assert_array_equal(words, expected)
        up = lists.up[lists.indptr[s] : lists.indptr[s + 1]]
        if parent[s] < 0:
            assert (up == lists.n_pairs).all()
        else:
            np.testing.assert_array_equal(lists.words[up], words)
            assert ((up >= lists.indptr[parent[s]]) & (up < lists.indptr[parent[s] + 1])).all()
    np.testing.assert_array_equal(lists.words[lists.own], counts.indices)
    values = rng.random(lists.n_pairs)
    by_word = sparse.csr_matrix((values, lists.words, lists.indptr), counts.shape).tocsc()
    for found, expected in zip(
        lists.by_word(values), (by_word.indptr, by_word.indices, by_word.data)
    ):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


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
    pooled = n.sum(axis=0)
    sizes = X.sum(axis=1).astype(float)
    scores = left_out_scores(S, sizes, weight, own, theta, rise, pooled, False)
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
    assert likeliest_of_the_best(right, np.array([-2.0, -1.0, 0.0]), ones) == 1
    assert likeliest_of_the_best(right, np.array([-1.0, -2.0, 0.0]), ones) == 0
    few = right[:, :4]  # four documents show nothing
    assert likeliest_of_the_best(few, np.array([-2.0, -1.0, 0.0]), ones[:4]) == 2


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

    monkeypatch.setattr(_sigma, "_left_out", spy)
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


# ---- sets of words ------------------------------------------------------------------------------


def test_sets_satisfy_equation_15():
    X, y = corpus()
    sigma = 4.0
    model = lw.HierarchicalDirichlet(TREE, words="set", sigma=sigma).fit(X, y)
    n = own_counts(X > 0, y)
    size = np.array([sum(TREE.index(p) == i for p in y) for i in range(len(TREE))])
    theta = dense(model)[:, :-1]  # no document has the last word
    for i in range(len(TREE)):
        children = TREE.children(i)
        m = len(children)
        prior, weight = (1.0, 2.0) if i == 0 else (sigma * theta[TREE.parent[i]], sigma)
        mean = theta[children].mean(axis=0) if m else 0.0
        expected = (prior + m * (sigma + 1) * mean + n[i, :-1]) / (
            weight + m * (sigma + 1) + size[i]
        )
        np.testing.assert_allclose(theta[i], expected)


def test_sets_are_scored_by_what_they_have_and_what_they_lack():
    X, y = corpus()
    model = lw.HierarchicalDirichlet(TREE, words="set", sigma=4.0).fit(X, y)
    theta = dense(model)[model.nodes_][:, :-1]
    has = X[:, :-1] > 0
    likelihood = np.log(theta) @ has.T + np.log(1 - theta) @ ~has.T  # V eq. 17
    with np.errstate(divide="ignore"):
        joint = likelihood.T + np.log(model.document_counts_ / len(y))
    np.testing.assert_allclose(
        model.predict_log_proba(X), joint - logsumexp(joint, axis=1, keepdims=True)
    )
    np.testing.assert_allclose(model.predict_proba(5 * X), model.predict_proba(X))
    rate = has.mean(axis=0)
    pooled = np.log(rate) @ has.T + np.log(1 - rate) @ ~has.T
    live = model.document_counts_ > 0
    np.testing.assert_allclose(model.likelihood_ratio(X)[:, live], (likelihood - pooled).T[:, live])


def test_roots_are_counts_of_roots():
    X, y = corpus()
    model = lw.HierarchicalDirichlet(TREE, words="roots").fit(X, y)
    same = lw.HierarchicalDirichlet(TREE).fit(np.sqrt(X), y)
    assert model.sigma_ == same.sigma_
    np.testing.assert_allclose(model.predict_log_proba(X), same.predict_log_proba(np.sqrt(X)))
    np.testing.assert_allclose(model.likelihood_ratio(X), same.likelihood_ratio(np.sqrt(X)))
    assert model.explain(X[:1]).words == same.explain(np.sqrt(X[:1])).words


def test_left_out_sets_are_nearly_those_of_a_model_without_the_document():
    X, y = corpus(n=100)
    X = (X > 0).astype(float)
    model = lw.HierarchicalDirichlet(TREE, words="set", sigma=20.0).fit(X, y)
    columns = np.arange(len(model.nodes_))
    own = np.array([list(model.classes_).index(label) for label in y])
    rise = responses(TREE, model._means, model.nodes_)
    theta = np.ascontiguousarray(model._p_w_given_classes(columns).T)
    one = np.ones(len(y))
    scores = left_out_scores(sparse.csr_matrix(X), one, one, own, theta, rise, X.sum(axis=0), True)
    for d in range(0, len(y), 9):
        others = np.arange(len(y)) != d
        slow = lw.HierarchicalDirichlet(TREE, words="set", sigma=20.0).fit(X[others], y[others])
        p = slow._p_w_given_classes(columns)[:, :-1]
        has = X[d, :-1] > 0
        expected = np.log(p[:, has]).sum(axis=1) + np.log(1 - p[:, ~has]).sum(axis=1)
        np.testing.assert_allclose(scores[d], expected, atol=0.02)


# ---- keywords and documents without a label -----------------------------------------------------

GARDEN = lw.Taxonomy.from_dict(
    {
        "garden": {"roses": ["rose"], "herbs": ["mint", "basil"]},
        "workshop": {"wood": ["saw"], "metal": ["weld"]},
    }
)
SAYS = {
    "garden/roses": "rose petal thorn bloom red climb",
    "garden/herbs": "mint basil leaf scent tea kitchen",
    "workshop/wood": "saw plank oak joint glue sand",
    "workshop/metal": "weld steel torch spark bolt iron",
}


def garden(n=200, seed=0, length=5):
    """Documents of four leaves; a keyword in about four of ten."""
    rng = np.random.default_rng(seed)
    labels = np.array(list(SAYS))[rng.integers(0, 4, n)]
    texts = []
    for label in labels:
        words = SAYS[label].split()
        p = np.where(np.isin(words, GARDEN.keywords[GARDEN.index(label)]), 0.3, 1.0)
        drawn = rng.choice(words, length - 1, p=p / p.sum())
        texts.append(" ".join([*drawn, f"any{rng.integers(20)}"]))
    counter = lw.WordCounter()
    return counter.fit_transform(texts), labels, counter


def slow_em(X, names, tree, sigma, n_steps, words):
    """V's procedure by loops: prototypes (eq. 14), then E steps (17) and M steps (13, 15)."""
    X = (X > 0).astype(float) if words == "set" else X.astype(float)
    has = np.array([[w in tree.keywords[i] for w in names] for i in range(len(tree))])
    theta = np.where(has, 0.9, 0.1)
    if words == "counts":
        theta /= theta.sum(axis=1, keepdims=True)
    prior = np.ones(len(tree))
    for _ in range(n_steps + 1):
        log_p = X @ np.log(theta).T
        if words == "set":
            log_p += (1 - X) @ np.log(1 - theta).T
        log_p += np.log(prior / prior.sum())
        p = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        n = p.T @ X
        size = p.sum(axis=0) if words == "set" else n.sum(axis=1)
        total = 2.0 if words == "set" else X.shape[1]
        for _ in range(500):
            for i in range(len(tree)):
                children = tree.children(i)
                below = (sigma + 1) * theta[children].sum(axis=0)
                above, weight = (1.0, total) if i == 0 else (sigma * theta[tree.parent[i]], sigma)
                theta[i] = (above + below + n[i]) / (weight + (sigma + 1) * len(children) + size[i])
        prior = p.sum(axis=0) + 1
    return p, theta


@pytest.mark.parametrize("words", ["set", "counts"])
def test_em_from_prototypes_is_that_of_the_paper(words, monkeypatch):
    monkeypatch.setitem(dirichlet._AS_GIVEN, "least", 0.0)
    X, _, counter = garden(60)
    names = counter.get_feature_names_out().tolist()
    settings = {"words": words, "sigma": 3.0, "init": "prototypes", "beta": 1.0}
    for n_steps in (0, 1, 4):
        model = lw.HierarchicalDirichlet(
            GARDEN,
            vocabulary=names,
            keyword_weight=0,
            max_iter=n_steps + 1,
            tol=0,
            **settings,
        ).fit(X)
        _, theta = slow_em(X.toarray(), names, GARDEN, 3.0, n_steps, words)
        np.testing.assert_allclose(dense(model), theta, rtol=1e-6)
        assert model.n_iter_ == n_steps + 1


def test_keywords_alone_find_what_else_is_said():
    X, y, counter = garden()
    model = lw.HierarchicalDirichlet(GARDEN, nodes="leaves", vocabulary=counter).fit(X)
    assert np.mean(model.predict(X) == y) > 0.9
    assert model.predict(counter.transform(["petal thorn"])).tolist() == ["garden/roses"]
    assert model.unknown_keywords_ == ["garden", "workshop"]
    every = lw.HierarchicalDirichlet(GARDEN, vocabulary=counter).fit(X)
    assert every.classes_.tolist() == sorted(GARDEN.paths)


def test_sets_learn_from_keywords_too():
    X, y, counter = garden()
    model = lw.HierarchicalDirichlet(GARDEN, words="set", nodes="leaves", vocabulary=counter).fit(X)
    assert np.mean(model.predict(X) == y) > 0.9


def test_order_of_documents_and_of_siblings_changes_nothing():
    X, y, counter = garden()
    order = np.random.default_rng(0).permutation(len(y))
    labels = np.where(np.arange(len(y)) < 8, y, None)
    settings = {"nodes": "leaves", "vocabulary": counter, "sigma": 30.0}
    model = lw.HierarchicalDirichlet(GARDEN, **settings).fit(X, labels)
    shuffled = lw.HierarchicalDirichlet(GARDEN, **settings).fit(X[order], labels[order])
    np.testing.assert_allclose(shuffled.predict_log_proba(X), model.predict_log_proba(X))
    turned = lw.Taxonomy.from_dict(
        {
            "workshop": {"metal": ["weld"], "wood": ["saw"]},
            "garden": {"herbs": ["basil", "mint"], "roses": ["rose"]},
        }
    )
    other = lw.HierarchicalDirichlet(turned, **settings).fit(X, labels)
    np.testing.assert_allclose(other.predict_log_proba(X), model.predict_log_proba(X))


def test_labels_alone_are_the_supervised_update():
    X, y = corpus()
    fitted = lw.HierarchicalDirichlet(TREE).fit(X, y)
    counted = lw.HierarchicalDirichlet(TREE).partial_fit(X, y)
    assert fitted.sigma_ == counted.sigma_
    assert fitted.n_iter_ == 1
    np.testing.assert_array_equal(fitted.predict_log_proba(X), counted.predict_log_proba(X))
    more = np.vstack([X, 0 * X])  # documents without words teach nothing
    blank = lw.HierarchicalDirichlet(TREE, class_prior="uniform").fit(more, [*y, *[None] * len(y)])
    alone = lw.HierarchicalDirichlet(TREE, class_prior="uniform").fit(X, y)
    np.testing.assert_allclose(blank.predict_log_proba(X), alone.predict_log_proba(X))


def test_unlabelled_documents_help_and_labels_hold():
    X, y, counter = garden(400, length=3)
    few = np.concatenate([np.flatnonzero(y == label)[:1] for label in SAYS])
    labels = np.full(len(y), None)
    labels[few] = y[few]
    alone = lw.HierarchicalDirichlet(GARDEN, nodes="leaves").fit(X[few], y[few])
    both = lw.HierarchicalDirichlet(GARDEN, nodes="leaves").fit(X, labels)
    assert both.score(X, y) > alone.score(X, y) + 0.1
    wrong = np.where(np.isin(np.arange(len(y)), few), "workshop/metal", None)
    model = lw.HierarchicalDirichlet(GARDEN, nodes="leaves", vocabulary=counter).fit(X, wrong)
    metal = model.classes_.tolist().index("workshop/metal")
    assert model.document_counts_[metal] >= len(few)


def test_labels_weigh_more_without_making_a_class_larger():
    X, y, counter = garden()
    labels = np.where(np.arange(len(y)) < 20, y, None)
    sizes = []
    words = []
    for weight in (0.0, 0.5):
        model = lw.HierarchicalDirichlet(
            GARDEN, nodes="leaves", vocabulary=counter, label_weight=weight, sigma=10.0, max_iter=1
        ).fit(X, labels)
        sizes.append(np.asarray(model.word_counts_.sum(axis=1)).ravel())
        words.append(model.word_counts_.toarray())
    np.testing.assert_allclose(sizes[0], sizes[1])
    assert np.abs(words[0] - words[1]).max() > 1


def test_labels_of_some_classes_alone_do_not_drive_documents_away():
    """Uneven labels: a class with one label keeps its documents."""
    X, y, counter = garden(400, length=4)
    labels = np.full(len(y), None)
    labels[np.flatnonzero(y == "garden/roses")[0]] = "garden/roses"
    settings = {"nodes": "leaves", "vocabulary": counter}
    without = lw.HierarchicalDirichlet(GARDEN, **settings).fit(X)
    one = lw.HierarchicalDirichlet(GARDEN, **settings).fit(X, labels)
    rose = without.classes_.tolist().index("garden/roses")
    assert one.document_counts_[rose] > 0.9 * without.document_counts_[rose]


def test_what_fits_nowhere_does_not_go_to_a_node_that_nothing_is_known_of():
    tree = lw.Taxonomy.from_dict({"a": ["apple"], "b": ["zebra"], "c": ["pear"]})
    texts = [
        "apple pie crust oven", "apple tart crust", "pear tree garden", "pear leaf garden",
        "one two three four five six", "red green blue grey black",
    ]  # fmt: skip
    counter = lw.WordCounter()
    X = counter.fit_transform([*texts, "zebra"])[:-1]
    for nodes in ("leaves", "all"):
        model = lw.HierarchicalDirichlet(tree, nodes=nodes, vocabulary=counter).fit(X)
        assert set(model.predict(X).tolist()) == {"a", "c"}
        assert model.predict(counter.transform(["zebra"])).tolist() == ["b"]


def test_counting_labels_alone_leaves_the_rest_as_it_is():
    X, y = corpus()
    model = lw.HierarchicalDirichlet(TREE).partial_fit(X, y)
    assert (model.n_iter_, model.unknown_keywords_) == (1, [])


def test_weights_of_documents_without_a_label_count():
    X, _, counter = garden(60)
    settings = {"nodes": "leaves", "vocabulary": counter, "sigma": 10.0}
    weight = np.random.default_rng(0).integers(1, 4, X.shape[0])
    repeated = np.repeat(np.arange(X.shape[0]), weight)
    once = lw.HierarchicalDirichlet(GARDEN, max_iter=1, **settings).fit(X, sample_weight=weight)
    n = lw.HierarchicalDirichlet(GARDEN, max_iter=1, **settings).fit(X[repeated])
    np.testing.assert_allclose(once.document_counts_, n.document_counts_, rtol=0.15)
    assert once.document_counts_.sum() == pytest.approx(
        (weight * (keyword_matches(X, counter) > 0)).sum()
    )


def keyword_matches(X, counter):
    is_keyword = np.isin(
        counter.get_feature_names_out(), [w for words in GARDEN.keywords for w in words]
    )
    return X @ is_keyword


def test_nodes_stay_with_their_keywords():
    """Plain EM lets a small node take over what a large one says; keywords that count do not."""
    tree = lw.Taxonomy.from_dict({"small": ["alpha"], "large": ["beta"]})
    rng = np.random.default_rng(1)
    texts = [" ".join(["alpha", *rng.choice(["one", "two", "three"], 6)]) for _ in range(2)]
    texts += [" ".join(rng.choice(["one", "two", "three"], 6)) for _ in range(60)]
    texts += [" ".join(["beta", *rng.choice(["six", "ten"], 6)]) for _ in range(4)]
    counter = lw.WordCounter()
    X = counter.fit_transform(texts)
    share = {}
    for weight in (0.0, 20.0):
        model = lw.HierarchicalDirichlet(
            tree, nodes="leaves", vocabulary=counter, keyword_weight=weight, sigma=1.0, tol=0
        ).fit(X)
        p = model._p_w_given_node(tree.index("small"))
        share[weight] = p[counter.vocabulary_["alpha"]]
    assert share[0.0] < 0.02  # two words of some hundred
    assert share[20.0] > 10 * share[0.0]


def test_a_node_of_unknown_keywords_takes_part_through_its_parent():
    tree = lw.Taxonomy.from_dict(
        {
            "garden": {"keywords": ["rose", "mint"], "children": {"new": ["zzz"], "old": ["rose"]}},
            "workshop": ["saw", "weld"],
        }
    )
    X, _, counter = garden()
    model = lw.HierarchicalDirichlet(tree, nodes="leaves", vocabulary=counter).fit(X)
    assert "zzz" in model.unknown_keywords_
    p = dict(zip(model.classes_, model.predict_proba(counter.transform(["leaf scent tea"]))[0]))
    assert p["garden/new"] > p["workshop"]
    lonely = lw.Taxonomy.from_dict({"a": ["rose"], "b": ["saw"], "c": ["zzz"]})
    model = lw.HierarchicalDirichlet(lonely, nodes="leaves", vocabulary=counter).fit(X)
    assert model.document_counts_[model.classes_ == "c"] == 0  # nothing says what it is


@pytest.mark.parametrize("concentration", [30, 200])
def test_automatic_sigma_without_labels_is_near_the_best(concentration):
    tree = lw.Taxonomy.from_dict({a: {f"{a}{i}": None for i in "123"} for a in "xyz"})
    drawn = make_corpus(
        tree, 800, 300, 40, model="dirichlet", concentration=concentration, random_state=0
    )
    seeds = np.full(len(drawn.y), None)
    for leaf in np.unique(drawn.labels):
        seeds[np.flatnonzero(np.array(drawn.labels) == leaf)[:3]] = leaf

    def fitted(sigma):
        return lw.HierarchicalDirichlet(tree, nodes="leaves", sigma=sigma).fit(drawn.X, seeds)

    auto = fitted("auto")
    best = max(fitted(sigma).score(drawn.X, drawn.labels) for sigma in 10.0 ** np.arange(5))
    assert auto.score(drawn.X, drawn.labels) > best - 0.03
    assert fitted("auto").sigma_ == auto.sigma_


def test_the_search_for_sigma_finds_the_top_and_stays_where_little_is_known():
    def peak(at):
        return lambda s: -np.abs(np.log10(s) - np.log10(at)) * np.ones(50)

    for at in (1.0, 31.6, 1000.0, 1e5):
        assert _sigma.likeliest(peak(at), 1e9) == pytest.approx(at, rel=0.01)
    assert _sigma.likeliest(peak(1e5), 500.0) == pytest.approx(316, rel=0.01)
    noise = np.random.default_rng(0).normal(size=(len(_sigma.GRID), 4)) * 100
    assert _sigma.likeliest(lambda s: noise[np.searchsorted(_sigma.GRID, s)] * 0, 1e9) == 100


def test_candidates_are_nearly_as_good_as_all_nodes():
    tree = lw.Taxonomy.from_paths([f"{a}/{b}" for a in "abcdefgh" for b in range(25)])
    drawn = make_corpus(tree, 3000, 2000, 20, model="dirichlet", concentration=20, random_state=0)
    labels = np.where(np.arange(3000) < 1500, np.array(drawn.labels, dtype=object), None)
    found = {}
    for candidates in (None, 20):
        model = lw.HierarchicalDirichlet(tree, sigma=30.0, candidates=candidates, nodes="leaves")
        found[candidates] = model.fit(drawn.X, labels).predict(drawn.X)
    assert np.mean(found[20] == found[None]) > 0.95


def test_rejecting_is_an_option():
    X, _, counter = garden()
    texts = ["rose petal", "rose saw", "nothing known"]
    new = counter.transform(texts)
    settings = {"nodes": "leaves", "vocabulary": counter, "class_prior": "uniform", "sigma": 10.0}
    model = lw.HierarchicalDirichlet(GARDEN, **settings).fit(X)
    assert None not in model.predict(new).tolist()
    ties = model.set_params(reject="ties").predict(new).tolist()
    assert ties[0] == "garden/roses"
    assert ties[2] is None
    sure = model.predict_proba(new).max(axis=1)
    assert model.set_params(reject=float(sure[1]) + 1e-6).predict(new)[1] is None
    one = lw.HierarchicalDirichlet(reject="ties").fit([[1, 2]], ["a"])
    assert one.predict([[1, 0]]).tolist() == ["a"]


def test_it_says_what_it_does(capsys):
    X, _, counter = garden(40)
    lw.HierarchicalDirichlet(GARDEN, vocabulary=counter, sigma=5.0, verbose=True).fit(X)
    assert "HierarchicalDirichlet: σ = 5.0: 40 of 40 documents moved" in capsys.readouterr().err


def test_a_model_of_keywords_can_be_kept(tmp_path):
    X, _, counter = garden()
    for words in ("counts", "set"):
        for vocabulary in (counter, counter.get_feature_names_out()):
            model = lw.HierarchicalDirichlet(GARDEN, words=words, vocabulary=vocabulary).fit(X)
            model.save(tmp_path / "m")
            loaded = lw.load(tmp_path / "m")
            np.testing.assert_array_equal(loaded.predict_log_proba(X), model.predict_log_proba(X))
            assert loaded.unknown_keywords_ == model.unknown_keywords_


def test_nothing_to_learn_from():
    X, _, counter = garden(20)
    with pytest.raises(
        ValueError, match=r"No document has a label, so there is nothing to learn: g"
    ):
        lw.HierarchicalDirichlet(GARDEN).fit(X)
    strange = lw.Taxonomy.from_dict({"a": ["qqq"]})
    with pytest.raises(ValueError, match=r"no keyword of the tree is in any document\. Give some"):
        lw.HierarchicalDirichlet(strange, vocabulary=counter).fit(X)
    with pytest.raises(
        ValueError, match=r"vocabulary is for a tree's keywords, and there is no ta"
    ):
        lw.HierarchicalDirichlet(vocabulary=counter).fit(X, ["a"] * 20)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"words": "bag"}, r'words=\'bag\': expected "counts", "roots" or "set"\.'),
        ({"init": "random"}, r'init=\'random\': expected "matches" or "prototypes"\.'),
        ({"keyword_weight": -1}, r"keyword_weight=-1: expected a number of 0 or more\."),
        ({"label_weight": "x"}, r"label_weight='x': expected a number of 0 or more\."),
        (
            {"prototype": (1.0, 0.1)},
            r"prototype=\(1.0, 0.1\): expected two numbers between 0 and 1",
        ),
        ({"prototype": 0.9}, r"prototype=0.9: expected two numbers"),
        ({"beta": 0}, r'beta=0: expected a number above 0, or "auto"\.'),
        ({"max_iter": 0}, r"max_iter=0: expected an integer of at least 1\."),
        ({"candidates": 0}, r'candidates=0: expected an integer of 1 or more, None or "auto"\.'),
        (
            {"words": "set", "candidates": 5},
            r"candidates: sets of words need all nodes, expected None\.",
        ),
        ({"reject": 2}, r'reject=2: expected None, "ties" or a probability above 0\.'),
    ],
)
def test_settings_of_em_are_checked(parameters, message):
    X, _, counter = garden(20)
    with pytest.raises(ValueError, match=message):
        lw.HierarchicalDirichlet(GARDEN, vocabulary=counter, **parameters).fit(X)


def test_sets_of_many_words_and_nodes_are_refused(monkeypatch):
    monkeypatch.setattr(_dirichlet_tree, "_TABLE", 10)
    X, y = corpus()
    with pytest.raises(
        ValueError, match=r'words="set" needs a table of 12 words and 5 nodes, whic'
    ):
        lw.HierarchicalDirichlet(TREE, words="set", sigma=1.0).fit(X, y)


def test_the_best_column_is_the_first_of_the_largest():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 4, (200, 5)) / 4.0
    table[::9] = 0.0
    expected = np.where(table.any(axis=1), table.argmax(axis=1), -1)
    np.testing.assert_array_equal(best_columns(sparse.csr_matrix(table)), expected)


@pytest.mark.parametrize("words", ["roots", "set"])
def test_documents_stay_as_they_are_however_they_are_read(words):
    X = sparse.csr_matrix([[4, 0, 1], [0, 0, 9]])
    found = _dirichlet_tree.read_as(X, words)
    expected = {"roots": [[2, 0, 1], [0, 0, 3]], "set": [[1, 0, 1], [0, 0, 1]]}
    np.testing.assert_array_equal(found.toarray(), expected[words])
    found.data[:], found.indices[:] = 7.0, 0
    np.testing.assert_array_equal(X.toarray(), [[4, 0, 1], [0, 0, 9]])
