"""From scores to probabilities."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import f1_score

from leafwise.models import _belief


def drawn_from(scores, temperature, doubt, leaning=0.0, seed=0):
    """Draw a class of each row; the temperature may differ from row to row."""
    scores = scores / np.reshape(temperature, (-1, 1))
    p = doubt * softmax(leaning * scores, axis=1) + (1 - doubt) * softmax(scores, axis=1)
    return (p.cumsum(axis=1) < np.random.default_rng(seed).random((len(p), 1))).sum(axis=1)


def confidence(belief, scores, learned=True):
    learned = np.broadcast_to(learned, len(scores))
    return np.exp(belief.log_proba(scores, learned)).max(axis=1)


def believe(right, scores, linear=True, share=1.0, learned=True, trusted=0.0):
    learned = np.broadcast_to(learned, len(scores))
    return _belief.believe_one(right, scores, learned, linear, share, trusted)


@pytest.fixture
def scores():
    return np.random.default_rng(1).normal(size=(20_000, 5))


def test_as_sure_as_right_on_average_and_by_tenths(scores):
    truth = drawn_from(scores, 0.3, 0.15)
    right = scores.argmax(axis=1) == truth
    sure = confidence(believe(right, scores), scores)
    assert sure.mean() == pytest.approx(right.mean(), abs=0.01)
    for part in np.array_split(np.argsort(sure), 10):
        assert sure[part].mean() == pytest.approx(right[part].mean(), abs=0.04)


def test_a_doubt_that_leans_is_found():
    """Many classes, some of which come close: one temperature for all would not do."""
    scores = np.random.default_rng(1).normal(size=(8_000, 40))
    right = scores.argmax(axis=1) == drawn_from(scores, 0.1, 0.5, 0.2)
    found = confidence(believe(right, scores), scores)
    drawn = confidence(_belief.Belief(0.1, 0.5, leaning=0.2), scores)
    assert np.abs(found - drawn).max() < 0.05
    alike = [confidence(_belief.Belief(t, 0.5), scores) for t in np.geomspace(0.02, 1)]
    assert min(np.abs(one - drawn).max() for one in alike) > 0.1


def test_documents_that_were_not_learned_from_have_their_own_temperature(scores):
    learned = np.arange(len(scores)) % 2 == 0
    right = scores.argmax(axis=1) == drawn_from(scores, np.where(learned, 0.4, 0.2), 0.1)
    found = believe(right, scores, learned=learned)
    assert found.temperature == pytest.approx(0.4, rel=0.1)
    assert found.new_temperature == pytest.approx(0.2, rel=0.1)
    sure = confidence(found, scores, learned)
    for part in (learned, ~learned):
        assert sure[part].mean() == pytest.approx(right[part].mean(), abs=0.01)
    only_new = believe(right[~learned], scores[~learned], learned=False)
    assert only_new.temperature == only_new.new_temperature == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("leaning", [0.0, 0.3])
def test_probabilities_keep_the_order_of_scores_and_sum_to_one(scores, leaning):
    belief = _belief.Belief(0.3, 0.4, leaning=leaning, new_temperature=0.6)
    p = np.exp(belief.log_proba(scores[:100], np.arange(100) % 2 == 0))
    assert p.sum(axis=1) == pytest.approx(np.ones(100))
    np.testing.assert_array_equal(p.argsort(axis=1), scores[:100].argsort(axis=1))


def test_what_is_impossible_stays_so_and_is_no_news(scores):
    """As a class of which there is neither a label nor a keyword."""
    scores = np.hstack([scores[:100], np.full((100, 1), -np.inf)])
    belief = _belief.Belief(0.3, 0.4, leaning=0.3)
    p = np.exp(belief.log_proba(scores, np.ones(100, bool)))
    assert not p[:, -1].any()
    assert p.sum(axis=1) == pytest.approx(np.ones(100))


@pytest.mark.parametrize("trusted", [0.0, 0.4, 1.0])
def test_few_labels_are_drawn_towards_what_is_usual(scores, trusted):
    """Which is between what is usual where neighbours are not trusted, and where they are."""
    without, with_them = _belief._USUAL_LINEAR[:, 0]
    log_t, doubt, leaning, newer = without + trusted * (with_them - without)
    right = np.ones(4, bool)
    few = believe(right, scores[:4], trusted=trusted)
    many = believe(np.ones(4000, bool), scores[:4000])
    assert few.temperature == pytest.approx(np.exp(log_t), rel=0.35)
    assert few.doubt == pytest.approx(expit(doubt), rel=0.35)
    assert few.leaning == pytest.approx(expit(leaning), rel=0.35)
    assert few.new_temperature == pytest.approx(few.temperature * np.exp(newer))
    assert confidence(many, scores).mean() > confidence(few, scores).mean()


def test_fewer_errors_are_expected_of_more_labels(scores):
    right = scores.argmax(axis=1) == drawn_from(scores, 0.3, 0.15)
    all_of_them = confidence(believe(right, scores), scores).mean()
    three_quarters = confidence(believe(right, scores, share=0.75), scores).mean()
    assert 1 - three_quarters == pytest.approx(0.75**_belief._CURVE * (1 - all_of_them), rel=0.02)


@pytest.mark.parametrize("linear", [True, False])
def test_as_sure_as_stages_agree(scores, linear):
    wide = scores if linear else 8 * scores
    for mean in (0.5, 0.7):
        belief = _belief.believe_agreement(mean, wide, linear)
        assert confidence(belief, wide).mean() == pytest.approx(mean, abs=1e-3)
    assert (belief.temperature == _belief._USUAL_TEMPERATURE) == linear


def test_linear_scores_are_never_surer_than_usual(scores):
    belief = _belief.believe_agreement(1.0, scores, True)
    assert (belief.temperature, belief.doubt) == (_belief._USUAL_TEMPERATURE, 0.0)
    hopeless = _belief.believe_agreement(0.1, scores, True)  # below chance: not to be believed
    assert hopeless.doubt == _belief._MOST_DOUBT


@pytest.mark.parametrize(("vague", "expected"), [([1.0, 0.0], True), ([0.0, 0.0], False)])
def test_at_least_one_class_where_the_closest_is_right_often_enough(vague, expected):
    """Four documents are below both thresholds: to be above, twenty would have to be wrong."""
    scores = np.array([[1.0, -1.0]] * 16 + [[0.0, 1.0]] * 20 + [[0.0, -1.0]] * 4)
    truth = np.array([[1.0, 0.0]] * 16 + [[0.0, 1.0]] * 20 + [vague] * 4)
    belief = _belief.believe_several(truth, scores)
    assert belief.thresholds.tolist() == [0.5, 0.0]
    assert belief.at_least_one is expected
    found = _belief.assigned(scores - belief.thresholds, belief.at_least_one)
    assert found.any(axis=1).sum() == (40 if expected else 36)


def test_errors_of_several_labels_add_up_to_micro_f1():
    rng = np.random.default_rng(2)
    truth, scores = rng.random((50, 4)) < 0.3, rng.normal(size=(50, 4))
    for at_least_one in (True, False):
        belief = _belief.Belief(thresholds=np.full(4, 0.5), at_least_one=at_least_one)
        wrong = _belief.errors(truth.astype(float), scores, belief)
        found = _belief.assigned(scores - 0.5, at_least_one)
        assert wrong.mean() == pytest.approx(1 - f1_score(truth, found, average="micro"))
        assert (wrong == 0).tolist() == (truth == found).all(axis=1).tolist()


# ---- weights of documents held out ----


def test_so_many_labels_for_each_class_are_weighed_by_the_documents_of_classes():
    """Wrong one time in ten in a class that has most documents, and one in two in three others."""
    classes = np.repeat([0, 1, 2, 3], 50)
    wrong = np.tile(np.arange(50) < 25, 4).astype(float)
    wrong[5:50] = 0
    n_labels, n_sorted = np.full(4, 50.0), np.array([9_399.0, 199.0, 199.0, 199.0])
    weight = _belief.weights_of_classes(classes, n_labels, n_sorted)
    assert weight.mean() == pytest.approx(1)
    assert wrong.mean() == pytest.approx(0.4)
    assert (weight * wrong).mean() == pytest.approx(0.94 * 0.1 + 0.06 * 0.5)
    assert set(weight[:50]) == {weight[0]}


def test_where_documents_are_certain_their_shares_are_counted():
    n_documents = np.array([60, 30, 9, 1, 0, 50])
    log_p = np.log(np.maximum(np.repeat(np.eye(6), n_documents, axis=0), 1e-300))
    n_labels = np.array([9, 9, 9, 9, 4, 0])
    among_labels = (n_labels + 1) / (n_labels + 1).sum()
    more = (n_documents / among_labels + 6) / 156  # with as many as classes, like the labels
    more[5] = 1.0  # no label, no opinion
    np.testing.assert_allclose(_belief.log_more_common(log_p, n_labels), np.log(more))


@pytest.mark.parametrize("shares", [(0.25, 0.25, 0.25, 0.25), (0.9, 0.06, 0.03, 0.01)])
def test_shares_that_labels_do_not_have_are_found_and_make_fewer_wrong(shares):
    """Normal distributions about as far apart as they are wide; labels are the same for each."""
    rng, n = np.random.default_rng(0), 20_000
    truth = rng.choice(4, n, p=shares)
    points = rng.normal(size=(n, 4)) + 1.5 * np.eye(4)[truth]
    scores = 1.5 * points  # log P(class | point) of equal shares, up to a term of the point
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    more = _belief.log_more_common(log_p, np.full(4, 50))
    np.testing.assert_allclose(np.exp(more) / 4, shares, atol=0.015)
    best = (scores + np.log(4 * np.array(shares))).argmax(axis=1)  # by Bayes' rule: none is better
    right = ((scores + more).argmax(axis=1) == truth).mean()
    assert right == pytest.approx((best == truth).mean(), abs=0.003)
    if max(shares) > 0.5:
        assert right > (scores.argmax(axis=1) == truth).mean() + 0.1


@pytest.mark.parametrize("shares", [(0.5, 0.3, 0.2), (1 / 3, 1 / 3, 1 / 3), (0.9, 0.09, 0.01)])
def test_labels_nearly_in_proportion_all_weigh_the_same(shares):
    rng = np.random.default_rng(0)
    classes = rng.choice(3, 400, p=shares)
    n_labels = np.bincount(rng.choice(3, 1000, p=shares), minlength=3)
    n_sorted = rng.multinomial(10_000, shares)
    np.testing.assert_array_equal(_belief.weights_of_classes(classes, n_labels, n_sorted), 1)
