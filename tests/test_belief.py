"""From scores to probabilities."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import f1_score

from leafwise.models import _belief


def drawn_from(scores, temperature, doubt, seed=0):
    p = doubt / scores.shape[1] + (1 - doubt) * softmax(scores / temperature, axis=1)
    return (p.cumsum(axis=1) < np.random.default_rng(seed).random((len(p), 1))).sum(axis=1)


def confidence(belief, scores):
    return np.exp(belief.log_proba(scores)).max(axis=1)


@pytest.fixture
def scores():
    return np.random.default_rng(1).normal(size=(20_000, 5))


def test_as_sure_as_right_on_average_and_by_tenths(scores):
    truth = drawn_from(scores, 0.3, 0.15)
    right = scores.argmax(axis=1) == truth
    sure = confidence(_belief.believe_one(right, scores, True), scores)
    assert sure.mean() == pytest.approx(right.mean(), abs=0.01)
    for part in np.array_split(np.argsort(sure), 10):
        assert sure[part].mean() == pytest.approx(right[part].mean(), abs=0.04)


def test_few_labels_are_drawn_towards_what_is_usual(scores):
    usual_t, usual_doubt = np.exp(_belief._USUAL[True][0][0]), 1 / (1 + np.exp(1.9))
    right = np.ones(4, bool)
    few = _belief.believe_one(right, scores[:4], True)
    many = _belief.believe_one(np.ones(4000, bool), scores[:4000], True)
    assert few.temperature == pytest.approx(usual_t, rel=0.35)
    assert few.doubt == pytest.approx(usual_doubt, rel=0.35)
    assert confidence(many, scores).mean() > confidence(few, scores).mean()


def test_fewer_errors_are_expected_of_more_labels(scores):
    right = scores.argmax(axis=1) == drawn_from(scores, 0.3, 0.15)
    all_of_them = confidence(_belief.believe_one(right, scores, True), scores).mean()
    three_quarters = confidence(_belief.believe_one(right, scores, True, 0.75), scores).mean()
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
