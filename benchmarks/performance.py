"""All speed comparisons in one run: docs/performance.md."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import sys
from pathlib import Path

import counts
import generative
import naive_bayes
import sklearn

import leafwise

PAGE = """\
# Performance

Printed by `make docs` (`python benchmarks/performance.py FILE --data DIR`) on {cores} cores of
{machine}, Python {python}, scikit-learn {sklearn}. Only the ratios within one run mean something;
they vary by about a fifth from run to run.

## Word counts

`WordCounter` beside scikit-learn's `CountVectorizer`, both with default settings, on raw messages
with all headers. The matrices are compared entry by entry.

{counts}
A first call in a fresh environment compiles for some seconds; the result is kept on disk.

## Naive Bayes

`NaiveBayes` as a share of `MultinomialNB`'s time on the same matrix: below 1 is faster. The last
column is the largest difference of the log joint, relative to its size.

{naive_bayes}
## The generative family

Beside `MultinomialNB` on the same matrix. `PLC`, `HPLC` and `PLSAClassifier` fit a mixture to each
document that they classify, by {steps} steps of EM. Time and memory of the others grow with the
number of distinct (node, word) pairs; `MultinomialNB` makes a dense table of documents × classes,
which is why it falls behind where classes are many. `GeneralShrinkage` has a weight for each
pair of classes.

{generative}"""


def printed(main) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main()
    return out.getvalue()


if __name__ == "__main__":
    page = Path(sys.argv.pop(1))
    text = PAGE.format(
        cores=os.cpu_count(),
        machine=platform.machine(),
        python=platform.python_version(),
        sklearn=sklearn.__version__,
        counts=printed(counts.main),
        naive_bayes=printed(naive_bayes.main),
        generative=printed(generative.main),
        steps=leafwise.PLC().fold_steps,
    )
    print(text)
    page.write_text(text, encoding="utf-8")
