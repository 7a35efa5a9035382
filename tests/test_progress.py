"""How a review stands: estimates that hold what they promise, and a plain answer."""

import numpy as np
import pytest

from leafwise.review import progress
from leafwise.review.progress import Check, Estimate
from leafwise.store.records import Answer, Run


def answered(id, document, labels, suggested="a", probability=0.8, asked="check"):
    return Answer(
        id,
        document,
        str(document),
        "",
        "ann",
        "review",
        labels,
        suggested,
        probability,
        asked,
        False,
    )


def run(id, n_labels=10, last_answer=0, state="done", **facts):
    return Run(id, "", "", state, "", 1.0, 100, n_labels, last_answer, 0, [], facts)


def checks(*right, p=0.8):
    return [Check(i, one, p) for i, one in enumerate(right)]


def report(**given):
    usual = {"belief": 0.8, "answers": [], "runs": [], "n_labelled": 0, "n_documents": 100}
    return progress.report(**(usual | given))


# ---- checks -------------------------------------------------------------------------------------


def test_checks_are_answers_of_documents_drawn_at_random():
    found = progress.find_checks(
        [
            answered(1, 1, ("a",)),
            answered(2, 2, ("b",)),
            answered(3, 3, ("b",), asked="queue"),
            answered(4, 4, None),
            answered(5, 5, ()),
            answered(6, 6, ("a",), suggested=None),
            answered(7, 7, ("b", "a"), probability=0.4),
        ]
    )
    assert found == [Check(1, True, 0.8), Check(2, False, 0.8), Check(7, True, 0.4)]


def test_a_label_that_was_corrected_counts_as_corrected():
    found = progress.find_checks(
        [answered(1, 1, ("a",)), answered(2, 1, ("b",), asked="chosen"), answered(3, 1, None)]
    )
    assert found == [Check(1, False, 0.8)]


def test_a_document_that_was_checked_twice_is_one_check():
    found = progress.find_checks([answered(1, 1, ("a",)), answered(2, 1, ("a",))])
    assert found == [Check(1, True, 0.8)]


# ---- the estimate -------------------------------------------------------------------------------


def test_a_check_weighs_as_much_as_the_model_it_was_of_had_labels():
    runs = [run(1, 0, 0), run(2, 20, 4), run(3, 40, 8, state="failed")]
    answers = [answered(id, id, ("a",)) for id in (1, 4, 5, 9)]
    assert [one.weight for one in progress.find_checks(answers, runs)] == [1, 1, 21, 21]
    assert [one.weight for one in progress.find_checks(answers)] == [1, 1, 1, 1]


def test_checks_of_a_first_sorting_count_little_later():
    """It was right half the time, and believed a tenth; now it knows how sure to be."""
    early = [Check(i, i % 2 == 0, 0.1) for i in range(20)]
    late = [Check(100 + i, i % 5 > 0, 0.8, 100.0) for i in range(20)]
    assert progress.estimate_sorting(0.8, early + late).value == pytest.approx(0.8, abs=0.005)
    alike = [one._replace(weight=7.0) for one in late]
    unweighed = [one._replace(weight=1.0) for one in late]
    np.testing.assert_allclose(
        progress.estimate_sorting(0.8, alike), progress.estimate_sorting(0.8, unweighed)
    )
    mixed, only = (progress.estimate_sorting(0.8, one) for one in (early + late, late))
    assert mixed.high - mixed.low == pytest.approx(only.high - only.low, rel=0.1)


def test_the_checks_correct_what_the_model_believes():
    # Nine tenths believed; of eight checks at .9, four were right: .4 less, by half.
    found = progress.estimate_sorting(0.9, checks(*[True, False] * 4, p=0.9))
    assert found.value == pytest.approx(0.7)
    found = progress.estimate_sorting(0.9, checks(*[True, False] * 400, p=0.9))
    assert found.value == pytest.approx(0.504, abs=5e-4)
    # A model that knows how sure it may be is believed.
    honest = [Check(0, True, 0.99)] * 50 + [Check(0, False, 0.01)] * 50
    assert progress.estimate_sorting(0.7, honest).value == pytest.approx(0.7)


def test_the_interval_by_hand():
    found = progress.estimate_sorting(0.8, checks(True, True, False))
    seen = np.array([0.2, 0.2, -0.8, 0.2, -0.8])  # the last two are added
    half = 1.96 * seen.std(ddof=1) / np.sqrt(5)
    assert found.low == pytest.approx(0.8 + seen.mean() - half)
    assert found.high == pytest.approx(min(1, 0.8 + seen.mean() + half))


def test_without_a_check_anything_may_be():
    assert progress.estimate_sorting(0.93, []) == Estimate(0.93, 0.0, 1.0)


def test_a_few_that_all_were_right_leave_a_doubt():
    few = progress.estimate_sorting(0.95, checks(*[True] * 5, p=0.95))
    many = progress.estimate_sorting(0.95, checks(*[True] * 200, p=0.95))
    assert few.value < many.value < 1.0
    assert few.high == 1.0
    assert few.low < 0.8 < 0.97 < many.low


@pytest.mark.parametrize("belief", [0.0, 0.02, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("n_right", [0, 1, 20])
@pytest.mark.parametrize("n_wrong", [0, 1, 20])
def test_shares_are_shares(belief, n_right, n_wrong):
    found = progress.estimate_sorting(
        belief, checks(*[True] * n_right, *[False] * n_wrong, p=belief)
    )
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("n_checks", [4, 12, 40, 200])
@pytest.mark.parametrize("shift", [-0.2, 0.0, 0.08])
@pytest.mark.parametrize("sure", [(5, 3), (20, 2)])
def test_the_interval_holds_the_truth_as_often_as_it_says(n_checks, shift, sure):
    """With models that are too sure, right, and not sure enough; at least about 95 of 100."""
    rng = np.random.default_rng(n_checks)
    held, widths = 0, []
    for _ in range(400):
        p = rng.beta(*sure, 2000)
        right = rng.random(2000) < np.clip(p + shift, 0, 1)
        drawn = rng.choice(2000, n_checks, replace=False)
        some = [Check(0, bool(right[i]), float(p[i])) for i in drawn]
        found = progress.estimate_sorting(float(p.mean()), some)
        held += found.low <= right.mean() <= found.high
        widths.append(found.high - found.low)
    assert held / 400 >= 0.925
    if n_checks == 200:
        assert np.mean(widths) < 0.15  # and it says something


def test_labels_count_as_right():
    found = progress.with_labels(Estimate(0.6, 0.4, 0.8), 50, 100)
    assert found == pytest.approx((0.8, 0.7, 0.9))
    assert progress.with_labels(Estimate(0.6, 0.4, 0.8), 0, 0) == pytest.approx((0.6, 0.4, 0.8))


# ---- runs ---------------------------------------------------------------------------------------


def test_documents_that_moved_are_counted_among_those_that_both_runs_sorted():
    before = np.array([1, 2, 3, 4, 9]), np.array([7, 7, 8, 8, 8])
    after = np.array([4, 3, 2, 1, 5]), np.array([8, 7, 7, 7, 7])
    assert progress.share_moved(before, after) == 0.25
    assert progress.share_moved(before, before) == 0.0
    assert progress.share_moved(before, (np.array([77]), np.array([1]))) is None


def test_the_curve_knows_what_was_known_then():
    seen = [Check(5, False, 0.8), Check(15, True, 0.8)]
    runs = [
        run(1, n_labels=0, last_answer=0, belief=0.8),
        run(2, n_labels=3, last_answer=10, belief=0.8),
        run(3, n_labels=9, last_answer=12, state="failed"),
        run(4, n_labels=10, last_answer=20, belief=0.9),
        run(5, n_labels=100, last_answer=30),
    ]
    first, second, third = progress.learning_curve(runs, seen)
    assert first == (0, 0.8, 0.0, 1.0)
    assert (second.n_labels, second.estimate) == (3, pytest.approx(0.03 + 0.97 * (0.8 - 0.8 / 9)))
    assert (third.n_labels, third.estimate) == (10, pytest.approx(0.1 + 0.9 * (0.9 - 0.6 / 10)))
    assert third.low < third.estimate < third.high


# ---- the answer ---------------------------------------------------------------------------------


def test_an_empty_project():
    found = report(belief=None, n_documents=0)
    assert found.answer == "There are no documents yet."
    assert not found.can_stop
    assert found.estimate is found.low is found.high is found.moved is found.n_wrong is None
    assert found.curve == []


def test_nothing_sorted():
    found = report(belief=None)
    assert found.answer == "Not yet: nothing has been sorted so far."
    assert not found.can_stop


def test_all_labelled():
    for belief in (None, 0.3):
        found = report(belief=belief, n_labelled=100)
        assert (found.estimate, found.low, found.high, found.n_wrong) == (1, 1, 1, 0)
        assert found.can_stop
        assert found.answer == "Yes: every document has a label."


def test_a_model_alone_cannot_say_stop():
    found = report(belief=0.99)
    assert (found.estimate, found.low, found.high) == (0.99, 0.0, 1.0)
    assert not found.can_stop
    assert found.answer == (
        "Not yet: the model itself believes 99% to be right, and no document drawn at random has "
        "been checked so far. 100 documents left without a label."
    )


def test_not_yet_says_how_many_are_wrong():
    given = [answered(i, i, ("a",) if i % 2 else ("b",)) for i in range(20)]
    found = report(answers=given, n_labelled=20, n_documents=120)
    assert found.n_checks == 20
    assert found.sorting.value == pytest.approx(0.8 - 20 * 0.3 / 28)
    assert found.n_wrong == 41
    assert found.answer.startswith("Not yet: about 41 documents of 120 are on a wrong node. By 20 ")
    assert found.answer.endswith("100 documents left without a label.")
    assert not found.can_stop


def test_yes_when_the_lower_end_reaches_the_target():
    given = [answered(i, i, ("a",), probability=0.97) for i in range(200)]
    found = report(belief=0.97, answers=given, n_labelled=200, n_documents=1000)
    assert found.low > 0.95
    assert found.can_stop
    assert found.answer == (
        "Yes: at least 98% of all documents are on the right node, and that reaches the 90% that "
        "you aim at. At most about 12 documents may be on a wrong one."
    )
    aimed = report(belief=0.97, answers=given, n_labelled=200, n_documents=1000, target=0.999)
    assert not aimed.can_stop
    assert "that is not sure to reach the 99.9% that you aim at" in aimed.answer


def test_a_bound_in_words_promises_no_more_than_it_holds():
    given = [answered(i, i, ("a",), probability=0.97) for i in range(200)]
    found = report(belief=0.97, answers=given, n_documents=1000)
    (said,) = [word for word in found.answer.split() if word.endswith("%")][:1]
    assert int(said[:-1]) / 100 <= found.low


LITTLE = "More reviewing brings little: each of the last two refits moved less than 1%"


def test_two_refits_that_moved_hardly_anything():
    runs = [run(1, last_answer=1), run(2, last_answer=20, moved=0.004), run(3, last_answer=40)]
    assert LITTLE not in report(runs=[*runs[:2], run(3, last_answer=40, moved=0.02)]).answer
    calm = report(runs=[*runs[:2], run(3, last_answer=40, moved=0.009)])
    assert LITTLE in calm.answer
    assert calm.moved == 0.009
    assert not calm.can_stop
    # Refits without a new answer move nothing, and prove nothing.
    idle = report(runs=[*runs[:2], run(3, last_answer=20, moved=0.0)])
    assert LITTLE not in idle.answer
    # One that failed is none.
    failed = report(runs=[*runs[:2], run(3, last_answer=40, moved=0.0, state="failed")])
    assert LITTLE not in failed.answer
    assert failed.moved == 0.004
