"""Threads: results in order, and one limit that holds everywhere."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from leafwise.text import WordCounter
from leafwise.threads import in_threads, limited, n_threads


def test_results_are_in_the_order_of_the_parts():
    with limited(3):
        assert in_threads(lambda part: part * part, range(50)) == [i * i for i in range(50)]


def test_no_part_no_result():
    assert in_threads(str, []) == []


def test_all_threads_work_at_the_same_time():
    together = threading.Barrier(3, timeout=30)
    with limited(3):
        in_threads(lambda _: together.wait(), range(3))  # a thread less would wait in vain


@pytest.mark.parametrize("limit", ["of the block", "of the call"])
def test_one_thread_is_the_callers_own(limit):
    def name(_):
        return threading.current_thread().name

    own = [name(0)] * 3
    if limit == "of the call":
        assert in_threads(name, range(3), 1) == own
    else:
        with limited(1):
            assert in_threads(name, range(3)) == own


def test_a_limit_holds_in_threads_and_in_their_threads():
    def nested(_):
        return in_threads(lambda _: n_threads(), range(2))

    with limited(5):
        assert in_threads(nested, range(4)) == [[5, 5]] * 4


def test_a_limit_ends_with_its_block():
    before = n_threads()
    with limited(before + 1):
        with limited(before + 2):
            assert n_threads() == before + 2
        assert n_threads() == before + 1
    assert n_threads() == before


def test_a_limit_ends_with_a_block_that_fails():
    before = n_threads()
    with suppress(KeyError), limited(before + 1):
        raise KeyError
    assert n_threads() == before


def test_a_limit_of_no_thread_is_refused():
    with pytest.raises(ValueError, match=r"limited\(0\): expected at least 1 thread\."):
        limited(0).__enter__()


def test_the_caller_is_one_of_the_threads():
    together = threading.Barrier(3, timeout=30)

    def name(_):
        together.wait()
        return threading.current_thread().name

    with limited(3):
        names = in_threads(name, range(3))
    assert threading.current_thread().name in names
    assert len(set(names)) == 3


@pytest.mark.parametrize("where", ["the caller", "another thread"])
def test_what_fails_in_a_thread_fails_and_no_part_begins_after_it(where):
    own = threading.current_thread()
    together = threading.Barrier(2, timeout=30)
    failed = threading.Event()
    begun = []

    def work(part):
        begun.append(part)
        together.wait()
        if (threading.current_thread() is own) == (where == "the caller"):
            try:
                raise KeyError(part)
            finally:
                failed.set()
        failed.wait(30)
        time.sleep(0.2)  # until the other has said so

    with limited(2), pytest.raises(KeyError):
        in_threads(work, range(100))
    assert sorted(begun) == [0, 1]


def test_what_fails_waits_for_the_parts_that_others_are_at():
    own = threading.current_thread()
    together = threading.Barrier(2, timeout=30)
    ended = []

    def work(part):
        together.wait()
        if threading.current_thread() is own:
            raise KeyError(part)
        time.sleep(0.2)
        ended.append(part)

    with limited(2), pytest.raises(KeyError):
        in_threads(work, range(2))
    assert len(ended) == 1


def test_work_can_be_divided_within_work_as_often_as_one_likes():
    def nested(depth):
        return sum(in_threads(nested, [depth - 1] * 3)) if depth else 1

    with limited(3):
        assert nested(5) == 3**5


def test_callers_at_the_same_time_have_threads_each():
    together = threading.Barrier(6, timeout=30)

    def call(_):
        with limited(3):
            in_threads(lambda _: together.wait(), range(3))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(call, range(2)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12
def test_a_forked_process_has_threads_of_its_own():
    def work(together, said):
        with limited(2):
            said.put(in_threads(lambda part: (together.wait(), part)[1], range(2)))

    context = multiprocessing.get_context("fork")
    with limited(2):
        in_threads(str, range(2))  # the threads of this process
    said = context.Queue()
    process = context.Process(target=work, args=(threading.Barrier(2, timeout=30), said))
    process.start()
    assert said.get(timeout=60) == [0, 1]
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize(("n_jobs", "expected"), [(-1, 3), (2, 2)])
def test_word_counter_follows_the_limit_where_it_has_none_of_its_own(n_jobs, expected):
    names = set()
    together = threading.Barrier(expected, timeout=30)

    def stem(word):
        if threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            together.wait()
        return word

    with limited(3):
        counter = WordCounter(stemmer=stem, ngram_range=(2, 2), n_jobs=n_jobs)
        X = counter.fit_transform(["many words " * 50_000] * 6)
    assert len(names) == expected
    assert X.sum() == 6 * 99_999
