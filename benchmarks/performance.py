"""All speed comparisons in one run: docs/performance.md."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import sys
from pathlib import Path

import counts
import naive_bayes
import sklearn

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

{naive_bayes}"""


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
    )
    print(text)
    page.write_text(text, encoding="utf-8")
