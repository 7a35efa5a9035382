"""How far a review has come: how much of the sorting is right, and whether to go on.

The queue asks for documents that may well be wrong, so the share of right suggestions among them
says too little of the others. About every fifth document is therefore a check, drawn at random.
How sure the model is of all documents without a label, corrected by what the checks found, gives
the accuracy: a difference estimator, for which few checks go far where the model knows how sure it
may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from leafwise.store.records import Answer, Run

TARGET = 0.9  # the accuracy to reach, where a project does not say
LITTLE = 0.01  # a refit that moves fewer documents has brought little
_AS_SURE = 8  # checks that would tell as much as the model's own belief
_Z = 1.96  # of an interval that holds the truth 95 times out of 100


class Check(NamedTuple):
    """A document drawn at random and answered.

    Attributes
    ----------
    answer : number of the answer
    right : whether the suggestion was right
    probability : what the model gave it then
    weight : how much it tells of the model now, in any unit
    """

    answer: int
    right: bool
    probability: float
    weight: float = 1.0


class Estimate(NamedTuple):
    """A share of documents that are right, and the 95 % interval about it."""

    value: float
    low: float
    high: float


class Point(NamedTuple):
    """A point of the learning curve: what was known of the whole corpus when a run ended."""

    n_labels: int
    estimate: float
    low: float
    high: float


class Progress(NamedTuple):
    """How a review stands.

    Attributes
    ----------
    estimate, low, high : accuracy of the whole corpus, labels counted as right, and its 95 %
        interval; None as long as nothing has been sorted
    sorting : the same of the documents without a label alone
    n_checks : answers of documents drawn at random
    n_labelled, n_documents : documents with a label, and all
    n_wrong : about how many documents are on a wrong node; None as long as nothing has been sorted
    curve : the accuracy at each refit so far
    moved : share of documents that the last refit put on another node; None without two refits
    answer : whether to stop, in words
    can_stop : whether the lower end of the interval reaches the target
    target : the accuracy to reach
    """

    estimate: float | None
    low: float | None
    high: float | None
    sorting: Estimate | None
    n_checks: int
    n_labelled: int
    n_documents: int
    n_wrong: int | None
    curve: list[Point]
    moved: float | None
    answer: str
    can_stop: bool
    target: float


def find_checks(answers: Iterable[Answer], runs: Sequence[Run] = ()) -> list[Check]:
    """Return what came of documents drawn at random, among reviewed ones, oldest first.

    A check weighs as much as the model that it was of had labels to learn from: how far off a first
    sorting by keywords was tells little of one that has learned how sure to be.

    Right is a suggestion that is the label; where a document has several labels, one that is among
    them. A label that was corrected later counts as corrected. Documents that were skipped, or
    whose label was taken away, do not count.
    """
    checks: dict[int, Answer] = {}
    truth: dict[int, tuple[str, ...]] = {}
    for answer in answers:
        if answer.labels is None:
            continue
        truth[answer.document] = answer.labels
        if answer.asked == "check":
            checks.setdefault(answer.document, answer)
    return [
        Check(one.id, one.suggested in truth[document], one.probability, _weight(one, runs))
        for document, one in checks.items()
        if truth[document] and one.suggested is not None and one.probability is not None
    ]


def _weight(check: Answer, runs: Sequence[Run]) -> float:
    known = [run.n_labels for run in runs if run.state == "done" and run.last_answer < check.id]
    return 1.0 + known[-1] if known else 1.0


def estimate_sorting(belief: float, checks: Sequence[Check]) -> Estimate:
    """Estimate which share of the documents without a label are on the right node.

    `belief` is the mean probability of their best guesses. What the checks add to it is the mean of
    (right - probability), each by its weight, with eight more that say 0: a model is seldom off by
    more than .15, and the mean of a few checks often is. The spread gives the interval, after one
    more check that was right and one that was wrong (as Agresti and Coull add to counts): so a few
    that all were right still leave a doubt, and with no check at all the interval is everything.
    """
    p = np.array([check.probability for check in checks], float)
    found = np.array([check.right for check in checks], float) - p
    weight = np.array([check.weight for check in checks], float)
    if len(weight):
        weight *= weight.sum() / (weight @ weight)  # adds up to as many as would tell as much
    mean = np.average(p, weights=weight) if len(p) else belief
    weight, padded = np.append(weight, [1, 1]), np.append(found, [1 - mean, -mean])
    n = weight.sum()
    centre = weight @ padded / n
    variance = weight @ (padded - centre) ** 2 / (n - 1)
    middle, half = belief + centre, _Z * np.sqrt(variance / n)
    value = _share(belief + weight[:-2] @ found / (n - 2 + _AS_SURE))
    # The interval has another middle than the estimate, which belongs into it all the same.
    return Estimate(value, min(value, _share(middle - half)), max(value, _share(middle + half)))


def with_labels(sorting: Estimate, n_labelled: int, n_documents: int) -> Estimate:
    """Return the same for all documents: those that have a label are right."""
    known = n_labelled / max(n_documents, 1)
    return Estimate(*(known + (1 - known) * share for share in sorting))


def share_moved(before: tuple[Any, Any], after: tuple[Any, Any]) -> float | None:
    """Return the share of documents whose best guess changed, of those that two runs sorted.

    Each is the ids of documents and the nodes that they are on; None where no document is in both.
    """
    _, old, new = np.intersect1d(before[0], after[0], return_indices=True)
    if not len(old):
        return None
    return float(np.mean(np.asarray(before[1])[old] != np.asarray(after[1])[new]))


def learning_curve(runs: Iterable[Run], checks: Sequence[Check]) -> list[Point]:
    """Return what was known of the whole corpus after each run, from the checks up to then.

    A run says in `facts["belief"]` how sure it is, on average, of documents without a label.
    """
    curve = []
    for run in runs:
        belief = run.facts.get("belief")
        if run.state != "done" or belief is None:
            continue
        so_far = [check for check in checks if check.answer <= run.last_answer]
        sorting = estimate_sorting(belief, so_far)
        curve.append(Point(run.n_labels, *with_labels(sorting, run.n_labels, run.n_documents)))
    return curve


def report(
    *,
    belief: float | None,
    answers: Iterable[Answer],
    runs: Iterable[Run],
    n_labelled: int,
    n_documents: int,
    target: float = TARGET,
) -> Progress:
    """Say how a review stands.

    Parameters
    ----------
    belief : mean probability of the best guesses of documents without a label; None where there is
        no guess
    answers : all that were not undone, oldest first
    runs : oldest first
    """
    done = [run for run in runs if run.state == "done"]
    checks = find_checks(answers, done)
    sorting = None if belief is None else estimate_sorting(belief, checks)
    if n_documents and n_labelled >= n_documents:
        sorting = Estimate(1.0, 1.0, 1.0)
    whole = None if sorting is None else with_labels(sorting, n_labelled, n_documents)
    n_wrong = None if whole is None else round((1 - whole.value) * n_documents)
    can_stop = whole is not None and whole.low >= target
    estimate, low, high = whole or (None, None, None)
    return Progress(
        estimate=estimate,
        low=low,
        high=high,
        sorting=sorting,
        n_checks=len(checks),
        n_labelled=n_labelled,
        n_documents=n_documents,
        n_wrong=n_wrong,
        curve=learning_curve(done, checks),
        moved=done[-1].facts.get("moved") if done else None,
        answer=_answer(whole, n_wrong, len(checks), n_documents - n_labelled, n_documents, target)
        + (_said_of_refits(done) if whole is not None and not can_stop else ""),
        can_stop=can_stop,
        target=target,
    )


def _answer(
    whole: Estimate | None,
    n_wrong: int | None,
    n_checks: int,
    n_left: int,
    n_documents: int,
    target: float,
) -> str:
    if not n_documents:
        return "There are no documents yet."
    if not n_left:
        return "Yes: every document has a label."
    if whole is None:
        return "Not yet: nothing has been sorted so far."
    goal = f"the {100 * target:g}% that you aim at"
    if whole.low >= target:
        most = round((1 - whole.low) * n_documents)
        return (
            f"Yes: at least {_percent_down(whole.low)} of all documents are on the right node, and "
            f"that reaches {goal}. At most about {_documents(most)} may be on a wrong one."
        )
    if not n_checks:
        return (
            f"Not yet: the model itself believes {whole.value:.0%} to be right, and no document "
            f"drawn at random has been checked so far. {_documents(n_left)} left without a label."
        )
    return (
        f"Not yet: about {_documents(n_wrong or 0)} of {n_documents:,} are on a wrong node. By "
        f"{_checks(n_checks)} drawn at random, between {_percent_down(whole.low)} and "
        f"{whole.high:.0%} are right: that is not sure to reach {goal}. "
        f"{_documents(n_left)} left without a label."
    )


def _said_of_refits(done: Sequence[Run]) -> str:
    """Say so where the last two refits, each after new answers, moved hardly a document."""
    if len(done) < 3:
        return ""
    moved = [run.facts.get("moved") for run in done[-2:]]
    learned = all(a.last_answer < b.last_answer for a, b in zip(done[-3:], done[-2:]))
    if not learned or any(share is None or share >= LITTLE for share in moved):
        return ""
    return (
        f" More reviewing brings little: each of the last two refits moved less than {LITTLE:.0%} "
        "of the documents. Better keywords, or nodes that are easier to tell apart, may bring more."
    )


def _share(number: float) -> float:
    return min(1.0, max(0.0, float(number)))


def _percent_down(share: float) -> str:
    """A bound in words must not promise more than it holds."""
    return f"{int(share * 100 + 1e-9)}%"


def _documents(n: int) -> str:
    return "1 document" if n == 1 else f"{n:,} documents"


def _checks(n: int) -> str:
    return "1 check" if n == 1 else f"{n:,} checks"
