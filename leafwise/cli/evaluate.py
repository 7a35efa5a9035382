"""leafwise evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leafwise.cli.curve import CurveSettings, show_curve
from leafwise.cli.learning import fit, tree_of_labels
from leafwise.cli.opening import (
    bad_rows_file,
    check_apart,
    check_language,
    check_picture,
    load_model,
    load_taxonomy,
    open_corpus,
    read_sizes,
)
from leafwise.cli.options import (
    BadRows,
    Docs,
    DocsFormat,
    Encoding,
    IdColumn,
    LabelColumn,
    Language,
    ModelFile,
    SkipBad,
    TextColumn,
    TreeFile,
)
from leafwise.cli.talking import progress, say_bad, showing, usage
from leafwise.exceptions import LeafwiseError

if TYPE_CHECKING:
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier


def evaluate(
    docs: Docs,
    taxonomy: TreeFile = None,
    model: ModelFile = None,
    hide: Annotated[
        float, typer.Option("--hide", help="Share of the labels to hide and then predict.")
    ] = 0.2,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which labels are hidden.")] = 0,
    curve: Annotated[
        bool,
        typer.Option(
            "--curve", help="Measure with several numbers of labels per node, beside other methods."
        ),
    ] = False,
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes", help="With --curve: labels per node, such as 1,5,20; 0 needs a tree."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", min=1, help="With --curve: how often labels are drawn: 3."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="With --curve: draw it to .png, .svg, .pdf"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    format: DocsFormat = None,
    encoding: Encoding = "utf-8",
    language: Language = "english",
    skip_bad: SkipBad = False,
    bad_rows: BadRows = None,
) -> None:
    """Say how good the sorting is, on documents whose labels are known.

    With --model, that model is put to the test on all labels of DOCS. Without, a share of the
    labels is hidden, a model learns from the rest, and the hidden ones are predicted.

    With --curve, it learns from a few labels per node, then from more, and so do simple methods:
    the table says how good each is, and what more labels would bring.

    Example: leafwise evaluate --taxonomy tree.yaml docs.csv
    """
    import numpy as np

    if taxonomy is not None and model is not None:
        usage("Give --taxonomy or --model, not both: a model brings its own tree.")
    listing = bad_rows_file(skip_bad, bad_rows)
    check_apart(docs=docs, taxonomy=taxonomy, model=model, picture=picture, bad_rows=listing)
    if not 0 < hide <= 1:
        usage(f"--hide {hide}: expected a share above 0 and at most 1.")
    wanted = read_sizes(sizes, least=0)
    if curve:
        _check_curve(model, hide, wanted, taxonomy)
    for option, given in {"--sizes": sizes, "--draws": draws, "--picture": picture}.items():
        if given is not None and not curve:
            usage(f"{option} is for the learning curve. Give --curve too.")
    if picture is not None:
        check_picture(picture)  # now, rather than after the work
    ready = load_model(model) if model else None
    tree = ready.taxonomy_ if ready else load_taxonomy(taxonomy)
    check_language(language)
    options = {"text": text, "label": label, "id": id, "format": format, "encoding": encoding}
    corpus = open_corpus(docs, tree, skip_bad, bad_rows, **options)
    with progress("Reading", corpus):
        batch = corpus.read()
    labelled = np.array([i for i, labels in enumerate(batch.labels) if labels])
    if not len(labelled):
        raise LeafwiseError(f"No row of {corpus.name} has a label, so there is nothing to check.")
    if curve:
        settings = CurveSettings(wanted, draws or 3, hide, seed, language, as_json, picture)
        show_curve(corpus, batch, tree, settings)
        return
    if ready is None:
        chosen = np.random.default_rng(seed).permutation(labelled)
        tested = np.sort(chosen[: max(1, round(hide * len(labelled)))])
        known: list = list(batch.labels)
        for i in tested:
            known[i] = ()
        with showing() as show:
            tree = tree or tree_of_labels(corpus)
            ready = fit(tree, batch.texts, known, language, show=show)
    else:
        tested = labelled
    figures = _figures(ready, [batch.texts[i] for i in tested], [batch.labels[i] for i in tested])
    say_bad(corpus)
    if as_json:
        import json

        typer.echo(json.dumps(figures, indent=2))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
        typer.echo(f"{name.replace('_', ' '):{width}}  {shown}")


def _check_curve(
    model: Path | None, hide: float, sizes: list[int] | None, taxonomy: Path | None
) -> None:
    if model is not None:
        usage("--curve measures what is learned here; a --model has learned already.")
    if hide == 1:
        usage("--hide 1 leaves no label to learn from. Give --curve a smaller share.")
    if sizes is not None and 0 in sizes and taxonomy is None:
        usage("--sizes 0 is sorting without labels: that takes a tree. Give one with --taxonomy.")


def _figures(model: TaxonomyClassifier, texts: list[str], truth: list) -> dict[str, int | float]:
    import numpy as np

    from leafwise import metrics

    tree = model.taxonomy_
    proba = model.predict_proba(texts)
    predicted = model.classes_[proba.argmax(axis=1)]
    paths = [tuple(tree.paths[i] for i in tree.indices(labels)) for labels in truth]
    hits = [path in labels for path, labels in zip(predicted, paths)]
    figures: dict[str, int | float] = {"documents": len(texts), "accuracy": float(np.mean(hits))}
    if model.several_:
        flat = metrics.scores(paths, [tuple(labels) for labels in model.predict(texts)])
        figures |= {name: flat[name] for name in ("micro_f1", "macro_f1")}
    elif all(len(labels) == 1 for labels in paths):
        y = [labels[0] for labels in paths]
        flat = metrics.scores(y, predicted)
        figures["macro_f1"] = flat["macro_f1"]
        figures |= metrics.hierarchical_scores(y, predicted, tree)
        inside = np.isin(y, model.classes_)
        if inside.any():
            curve = metrics.reliability_curve(np.array(y)[inside], proba[inside], model.classes_)
            figures["expected_calibration_error"] = curve.error
            figures["calibration_error_by_chance"] = curve.error_by_chance
    else:
        flat = metrics.scores(paths, [(path,) for path in predicted])
        figures |= {name: flat[name] for name in ("micro_f1", "macro_f1")}
    return {name: v if isinstance(v, int) else float(v) for name, v in figures.items()}
