"""Fisher kernels, against numerical derivatives of the likelihood and loops over G's equations."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import leafwise as lw
from leafwise import fisher
from leafwise.fisher import PARTS, FisherMap, fisher_kernel, fisher_scores
from leafwise.models.growth import HPLSA

TREE = lw.Taxonomy.from_paths(["a/1", "a/2", "b"])
N_WORDS = 8
UNSEEN = 7  # a word that no training document has

# A document mixes classes in the first ones, and is of one class in the others.
MIXING = {
    "HPLSA": HPLSA(tree=TREE, max_iter=5, random_state=0),
    "PLSA": HPLSA(tree=TREE, topics="leaf", max_iter=5, random_state=0),
    "PLSAClassifier": lw.PLSAClassifier(TREE, trust=0.7),
    "HPLC": lw.HPLC(TREE, steps=3),
    "PLC": lw.PLC(TREE),
}
ONE_CLASS = {
    "NaiveBayes": lw.NaiveBayes(TREE),
    "NaiveBayes, Dirichlet": lw.NaiveBayes(TREE, smoothing="dirichlet", mu=5.0),
    "HierarchicalMixture": lw.HierarchicalMixture(TREE),
    "HierarchicalShrinkage": lw.HierarchicalShrinkage(TREE),
    "levels apart": lw.HierarchicalShrinkage(TREE, levels="apart"),
    "HACM": lw.HPLC(TREE, prediction="direct", weights="uniform"),
    "HPLSA of documents": HPLSA(tree=TREE, unit="document", max_iter=5, random_state=0),
}
MODELS = {**MIXING, **ONE_CLASS}


def training_documents():
    """Documents of every class, an inner one among them; each class has each word but one."""
    rng = np.random.default_rng(0)
    y = np.array(["a/1", "a/2", "b", "a"] * 6)
    X = rng.poisson(0.4, (24, N_WORDS))
    for i in range(24):
        X[i, 2 * (i % 4) : 2 * (i % 4) + 2] += rng.poisson(3, 2)
    X[:4] += 1
    X[:, UNSEEN] = 0
    return X, y


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    X, y = training_documents()
    estimator = clone(MODELS[request.param])
    return estimator.fit(X) if isinstance(estimator, HPLSA) else estimator.fit(X, y)


@pytest.fixture(scope="module")
def documents():
    """New documents: one with a word that no other document has, and one with a part of a word."""
    X = np.random.default_rng(1).poisson(0.9, (6, N_WORDS)).astype(float)
    X[0, UNSEEN] = 3
    X[1, 0] = 0.5
    return X


def posterior(model, X):
    """P(α | d), of the documents without words that the model has not seen."""
    X = np.where(np.arange(N_WORDS) == UNSEEN, 0, X)
    if isinstance(model, HPLSA):
        return model.transform(X)
    p = model.predict_proba(X)
    return p[:, p.max(axis=0) > 0]


def read(model):
    _, p_class, p_topic, p_word, one_class = fisher._read(model)
    return p_class, p_topic.toarray(), p_word.T, one_class


def log_likelihood(x, p_class, p_topic, p_word, p_document):
    """ℓ(d), with loops; `p_document` is P(d | α), or None if the document is of one class."""
    known = [j for j in range(N_WORDS) if x[j] > 0 and j != UNSEEN]
    length = sum(x[j] for j in known)

    def p_word_given_class(j, a):
        return sum(p_topic[a, v] * p_word[v, j] for v in range(len(p_word)))

    if p_document is None:
        total = 0.0
        for a in range(len(p_class)):
            product = p_class[a]
            for j in known:
                product *= p_word_given_class(j, a) ** x[j]
            total += product
        return np.log(total) / length
    total = 0.0
    for j in known:  # G eq. 15
        mixed = [p_class[a] * p_document[a] * p_word_given_class(j, a) for a in range(len(p_class))]
        total += x[j] / length * np.log(sum(mixed))
    return total


def numerical(model, x, part, root, step=1e-6):
    """Central differences of ℓ(d) by each parameter, or by twice its root."""
    *parameters, one_class = read(model)
    p_class, p_topic, _ = parameters
    p_document = None if one_class else posterior(model, x[None])[0] / p_class
    which = {"classes": 0, "levels": 1, "words": 2}[part]
    found = np.zeros(parameters[which].shape)
    for at in np.ndindex(found.shape):
        if part == "levels" and p_topic[at] == 0:
            continue  # no parameter: the topic is not on the path
        values = []
        for sign in (1, -1):
            changed = [p.copy() for p in parameters]
            theta = changed[which][at]
            rho = 2 * np.sqrt(theta) + sign * step
            changed[which][at] = rho**2 / 4 if root else theta + sign * step
            values.append(log_likelihood(x, *changed, p_document))
        found[at] = (values[0] - values[1]) / (2 * step)
    if part == "words":
        return found.T.ravel()
    return found[p_topic > 0] if part == "levels" else found


def kernel(model, X, part):
    """G eq. 19-23, a pair of documents and a sum at a time."""
    p_class, p_topic, p_word, one_class = read(model)
    n_classes, n_topics = p_topic.shape
    known = np.where(np.arange(N_WORDS) == UNSEEN, 0, X)
    frequency = known / np.maximum(known.sum(axis=1, keepdims=True), 1e-9)
    p_class_d = posterior(model, X)
    p_word_a = p_topic @ p_word

    def p_topic_given(j, d):
        """P(ν | j, d)."""
        found = np.zeros(n_topics)
        for a in range(n_classes):
            if p_word_a[a, j] == 0:
                continue
            share = p_class_d[d, a]  # P(α | j, d)
            if not one_class:
                share *= p_word_a[a, j] / (p_class_d[d] @ p_word_a[:, j])
            for v in range(n_topics):
                found[v] += share * p_topic[a, v] * p_word[v, j] / p_word_a[a, j]
        return found

    def explained(d, a, v):
        """Σ_j P^(j | d) P(j | ν) / P(j | α)."""
        used = [j for j in range(N_WORDS) if frequency[d, j] > 0 and p_word_a[a, j] > 0]
        return sum(frequency[d, j] * p_word[v, j] / p_word_a[a, j] for j in used)

    found = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        for n in range(len(X)):
            for a in range(n_classes):
                both = p_class_d[i, a] * p_class_d[n, a]
                if part == "classes":
                    found[i, n] += both / p_class[a]  # eq. 19
                elif part == "levels" and not one_class:
                    found[i, n] += both  # eq. 21
                elif part == "levels":
                    for v in np.flatnonzero(p_topic[a]):  # eq. 23
                        found[i, n] += both * explained(i, a, v) * explained(n, a, v)
            if part == "words":
                for j in np.flatnonzero(frequency[i] * frequency[n]):  # eq. 20
                    split = p_topic_given(j, i) * p_topic_given(j, n)
                    for v in np.flatnonzero(split):
                        weight = frequency[i, j] * frequency[n, j]
                        found[i, n] += weight * split[v] / p_word[v, j]
    return found


def test_parameters_are_the_models(model):
    p_class, p_topic, p_word, _ = read(model)
    np.testing.assert_allclose(p_class.sum(), 1)
    np.testing.assert_allclose(p_topic.sum(axis=1), 1)
    seen = np.arange(N_WORDS) != UNSEEN
    if isinstance(model, HPLSA):
        expected = model.p_node_given_leaf_ @ model.p_word_given_node_
    elif isinstance(model, lw.PLSAClassifier):
        expected = model.p_w_given_class_[model._live]
    else:
        expected = np.exp(model.log_p_w_given_node_[model._live])
    np.testing.assert_allclose((p_topic @ p_word)[:, seen], expected[:, seen], atol=1e-12)
    assert not p_word[:, UNSEEN].any()


def test_which_models_have_documents_of_one_class():
    X, y = training_documents()
    for name, estimator in MODELS.items():
        fitted = clone(estimator).fit(X, *([] if isinstance(estimator, HPLSA) else [y]))
        assert fisher._read(fitted).one_class == (name in ONE_CLASS), name


@pytest.mark.parametrize("root", [False, True])
def test_scores_are_derivatives_of_the_likelihood(model, documents, root):
    X = documents[:2]
    scores = fisher_scores(model, X, root=root)
    assert list(scores) == list(PARTS)
    for part, found in scores.items():
        for x, row in zip(X, found.toarray()):
            expected = numerical(model, x, part, root)
            np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-7, err_msg=part)


def test_scores_without_the_difference_of_model_and_document(model, documents):
    """The right-hand sides of G eq. 16-17, and the same by roots."""
    p_class, p_topic, _, one_class = read(model)
    p_class_d = posterior(model, documents)
    for root in (False, True):
        scores = fisher_scores(model, documents, exact=False, root=root)
        below = np.sqrt(p_class) if root else p_class
        np.testing.assert_allclose(scores["classes"].toarray(), p_class_d / below)
        exact = fisher_scores(model, documents, root=root)
        assert (scores["words"] != exact["words"]).nnz == 0
        if one_class:  # eq. 22 needs no approximation
            assert (scores["levels"] != exact["levels"]).nnz == 0
        else:
            a, v = np.nonzero(p_topic)
            weight = np.sqrt(p_topic[a, v]) if root else 1
            np.testing.assert_allclose(scores["levels"].toarray(), p_class_d[:, a] * weight)


def test_the_approximation_is_none_where_the_document_is_fitted():
    """At a fixed point of EM, Σ_j P^(j | d) P(j | α) / P(j | d) = 1 for all classes of d."""
    X = training_documents()[0][:20]  # none of them empty
    model = HPLSA(tree=TREE, topics="leaf", max_iter=5, fold_steps=1000, random_state=0).fit(X)
    exact = fisher_scores(model, X, "classes")["classes"].toarray()
    found = fisher_scores(model, X, "classes", exact=False)["classes"].toarray()
    np.testing.assert_allclose(found, exact, atol=1e-3)
    model.set_params(fold_steps=1)
    far = fisher_scores(model, X, "classes")["classes"].toarray()
    assert np.abs(fisher_scores(model, X, exact=False)["classes"].toarray() - far).max() > 0.1


@pytest.mark.parametrize("part", PARTS)
def test_kernels_are_equations_19_to_23(model, documents, part):
    expected = kernel(model, documents, part)
    np.testing.assert_allclose(fisher_kernel(model, documents, parts=part), expected, rtol=1e-9)
    features = FisherMap(model, [part]).fit(documents).transform(documents)
    assert sparse.issparse(features)
    np.testing.assert_allclose((features @ features.T).toarray(), expected, rtol=1e-9)


@pytest.mark.parametrize("exact", [False, True])
def test_kernel_is_the_sum_of_its_parts(model, documents, exact):
    whole = fisher_kernel(model, documents, exact=exact)
    parts = [fisher_kernel(model, documents, parts=part, exact=exact) for part in PARTS]
    np.testing.assert_allclose(whole, sum(parts))
    np.testing.assert_allclose(whole, whole.T)
    values = np.linalg.eigvalsh(whole)
    assert values.min() > -1e-9 * values.max()
    across = fisher_kernel(model, documents, documents[:2], exact=exact)
    np.testing.assert_allclose(across, whole[:, :2])


def test_exact_kernel_is_of_the_derivatives_by_roots(model, documents):
    for part, scores in fisher_scores(model, documents, root=True).items():
        found = fisher_kernel(model, documents, parts=part, exact=True)
        np.testing.assert_allclose(found, (scores @ scores.T).toarray())


def test_naive_bayes_without_levels_has_k3_of_plsa(documents):
    """With one topic to a class, Σ_j P^(j | d) P(j | ν) / P(j | α) = 1 (G eq. 21 and 23)."""
    model = lw.NaiveBayes().fit(*training_documents())
    p = posterior(model, documents)
    np.testing.assert_allclose(fisher_kernel(model, documents, parts="levels"), p @ p.T)


def test_documents_without_known_words(model, documents):
    X = np.concatenate([documents[1:2], np.zeros((2, N_WORDS))])
    X[2, UNSEEN] = 4
    assert not fisher_kernel(model, X, parts="words")[1:].any()
    whole = fisher_kernel(model, X)
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(whole[1], whole[2])  # a word that is not known is none
    p = posterior(model, X)
    classes = fisher_kernel(model, X, parts="classes")
    np.testing.assert_allclose(classes[1, 0], (p[1] * p[0] / read(model)[0]).sum())
    # Such a document has no likelihood, and so no derivative.
    assert not fisher_kernel(model, X, exact=True)[1:].any()


def test_unknown_words_change_nothing(model, documents):
    with_it, without = documents.copy(), documents.copy()
    with_it[:, UNSEEN], without[:, UNSEEN] = 5, 0
    np.testing.assert_array_equal(fisher_kernel(model, with_it), fisher_kernel(model, without))


def test_blocks_of_documents_change_nothing(model, documents, monkeypatch):
    X = np.concatenate([documents, np.zeros((1, N_WORDS)), documents])
    whole = FisherMap(model).fit(X).transform(sparse.csr_matrix(X))
    for size in (1, 200):
        monkeypatch.setattr(fisher, "_ELEMENTS", size)
        found = FisherMap(model).fit(X).transform(X)
        np.testing.assert_allclose(found.toarray(), whole.toarray(), rtol=1e-12)
        np.testing.assert_allclose(fisher_kernel(model, X), (whole @ whole.T).toarray())
    assert whole.has_canonical_format


def test_small_shares_are_left_out(model, documents):
    """P(ν | j, d) is the feature times √P(j | ν) over P^(j | d)."""
    scores = fisher_scores(model, documents, "words", root=True)["words"].toarray()
    _, p_topic, p_word, _ = read(model)
    known = np.where(np.arange(N_WORDS) == UNSEEN, 0, documents)
    joint = scores.reshape(len(known), N_WORDS, -1) * np.sqrt(p_word.T)
    np.testing.assert_allclose(joint.sum(axis=2), known / known.sum(axis=1, keepdims=True))
    kept = (joint >= 0.2 * joint.sum(axis=2, keepdims=True)).reshape(len(known), -1)
    few = FisherMap(model, "words", least=0.2).fit(documents).transform(documents)
    expected = np.where(kept, scores, 0)[:, p_word.T.ravel() > 0]  # other words have no column
    np.testing.assert_allclose(few.toarray(), expected)
    assert few.nnz < np.count_nonzero(scores) or p_topic.shape[1] == 1
    for least in (-0.1, 1, "few"):
        with pytest.raises(ValueError, match=f"least={least!r}: expected a number from 0 to below"):
            FisherMap(model, least=least).fit(documents)


def test_no_documents(model):
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        fisher_kernel(model, np.zeros((0, N_WORDS)))


def test_a_leaf_that_no_document_has_is_left_out(documents):
    model = HPLSA(tree=TREE, max_iter=5, random_state=0).fit(training_documents()[0])
    model.p_leaf_ = np.array([0.0, 0.4, 0.6])
    model._derive()
    found = fisher_kernel(model, documents, parts="classes")
    p = model.transform(np.where(np.arange(N_WORDS) == UNSEEN, 0, documents))[:, 1:]
    np.testing.assert_allclose(found, p / [0.4, 0.6] @ p.T)


def test_goes_into_kernel_methods():
    X, y = training_documents()
    model = lw.HierarchicalMixture(TREE).fit(X, y)
    K = fisher_kernel(model, X)
    by_kernel = SVC(kernel="precomputed").fit(K, y)
    features = FisherMap(model).fit(X).transform(X)
    by_map = SVC(kernel="linear").fit(features, y)
    np.testing.assert_allclose(by_kernel.decision_function(K), by_map.decision_function(features))
    whole = make_pipeline(FisherMap(lw.HierarchicalMixture(TREE)), Normalizer(), LinearSVC())
    assert whole.fit(X, y).score(X, y) > 0.8
    assert whole.predict(X[:2]).tolist() == ["a/1", "a/2"]


def test_goes_into_neighbour_graphs():
    X, y = training_documents()
    model = HPLSA(tree=TREE, random_state=0).fit(X)
    features = FisherMap(model).fit(X).transform(X)
    graph = lw.neighbor_graph(features, 5, "embedding")
    K = fisher_kernel(model, X)
    cosine = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    again = lw.neighbor_graph(cosine, 5, "precomputed")
    np.testing.assert_allclose(graph.toarray(), again.toarray())
    labels = np.where(np.arange(24) < 8, y, None)
    vectors = lw.HarmonicClassifier(k=5, similarity="embedding").fit(features, labels)
    given = lw.HarmonicClassifier(k=5, similarity="precomputed").fit(cosine, labels)
    assert vectors.transduction_.tolist() == given.transduction_.tolist()
    assert np.mean(vectors.transduction_ == y) > 0.6


def test_a_fitted_model_is_used_and_another_is_fitted():
    X, y = training_documents()
    fitted = lw.NaiveBayes().fit(X, y)
    assert FisherMap(fitted).fit(X[:3]).model_ is fitted
    template = lw.NaiveBayes()
    again = FisherMap(template).fit(X, y)
    np.testing.assert_allclose(
        again.transform(X).toarray(), FisherMap(fitted).fit(X).transform(X).toarray()
    )
    assert not hasattr(template, "classes_")
    frozen = FisherMap(FrozenEstimator(fitted))
    assert clone(frozen).fit(X).model_ is fitted
    scores = cross_val_score(make_pipeline(frozen, Normalizer(), LinearSVC()), X, y, cv=3)
    assert scores.mean() > 0.8


@parametrize_with_checks([FisherMap(lw.NaiveBayes(), least=0.1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("parts", ["letters", [], ["words", "words"], ["words", 3]])
def test_unknown_parts_are_refused(parts):
    X, y = training_documents()
    model = lw.NaiveBayes().fit(X, y)
    message = r"expected some of \('classes', 'words', 'levels'\), each once\."
    with pytest.raises(ValueError, match=message):
        FisherMap(model, parts).fit(X)
    with pytest.raises(ValueError, match=message):
        fisher_kernel(model, X, parts=parts)
    with pytest.raises(ValueError, match=message):
        fisher_scores(model, X, parts)


def test_wrong_models_are_refused():
    X, y = training_documents()
    message = "LinearSVC has no Fisher kernel here: expected HPLSA, PLSAClassifier, HPLC, PLC"
    for model in (LinearSVC(), LinearSVC().fit(X, y)):
        with pytest.raises(TypeError, match=message):
            fisher_kernel(model, X)
        with pytest.raises(TypeError, match=message):
            FisherMap(model).fit(X, y)
    with pytest.raises(NotFittedError, match="This HPLSA is not fitted: fit it first, or have"):
        fisher_scores(HPLSA(), X)
    with pytest.raises(NotFittedError, match="This FisherMap instance is not fitted yet"):
        FisherMap(lw.NaiveBayes()).transform(X)


def test_wrong_documents_are_refused(model):
    X, _ = training_documents()
    message = f"X has 5 words, but {type(model).__name__} was fitted to 8: count both with the same"
    with pytest.raises(ValueError, match=message):
        fisher_kernel(model, X[:, :5])
    with pytest.raises(ValueError, match=message):
        FisherMap(model).fit(X[:, :5])
    with pytest.raises(ValueError, match="X has 5 features, but FisherMap is expecting 8 features"):
        FisherMap(model).fit(X).transform(X[:, :5])
    with pytest.raises(ValueError, match=r"Negative values in data passed to Fisher kernels"):
        fisher_kernel(model, -X)
