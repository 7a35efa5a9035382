"""Scores of documents by a table of words: the same bits as SciPy's product, in any threads."""

import numpy as np
import pytest
from scipy import sparse

from leafwise.models._sums import table_product
from leafwise.threads import limited


@pytest.mark.parametrize("n_columns", [1, 3, 40, 700])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_product_is_scipys_to_the_bit(n_columns, dtype):
    rng = np.random.default_rng(n_columns)
    counts = rng.integers(1, 9, (300, 90)) * (rng.random((300, 90)) < 0.2)
    counts[7] = 0  # a document without words
    X = sparse.csr_matrix(counts.astype(dtype))
    table = rng.normal(size=(90, n_columns))
    for n_threads in (1, 2, 5):
        with limited(n_threads):
            assert np.array_equal(table_product(X, table), X @ table)


def test_product_in_many_parts_and_of_other_layouts():
    rng = np.random.default_rng(0)
    X = sparse.random(5000, 200, 0.25, "csr", rng=rng)
    table = np.asfortranarray(rng.normal(size=(200, 50)))
    assert np.array_equal(table_product(X, table), X @ table)


def test_product_of_no_documents():
    assert table_product(sparse.csr_matrix((0, 4)), np.ones((4, 3))).shape == (0, 3)
