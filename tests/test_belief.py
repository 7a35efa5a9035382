"""From scores to probabilities."""

import numpy as np
import pytest
from scipy.special import softmax

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
