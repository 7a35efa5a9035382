"""Trees as SKOS concept schemes, in Turtle or RDF/XML."""

from __future__ import annotations

import gc
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape as xml_escape

from leafwise.exceptions import DependencyError, TaxonomyError
from leafwise.taxonomy import Taxonomy, own_keywords
from leafwise.taxonomy_names import default_keywords

_SKOS = "http://www.w3.org/2004/02/skos/core#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_URN = "urn:leafwise:"


def read_skos(data: bytes, format: str, language: str) -> Taxonomy:
    """Read the concepts of a file as a tree."""
    statements = _parse_rdf(data, format)
    from rdflib import DC, DCTERMS, RDF, RDFS, SKOS

    def objects(subject: Any, *properties: Any) -> list[Any]:
        return [o for p in properties for o in statements[p].get(subject, ())]

    broader: dict[Any, dict[Any, None]] = {c: dict(b) for c, b in statements[SKOS.broader].items()}
    for above, below in statements[SKOS.narrower].items():
        for concept in below:
            broader.setdefault(concept, {})[above] = None
    kinds = statements[RDF.type].items()
    found = [c for c, kind in kinds if SKOS.Concept in kind]
    for prop in (SKOS.topConceptOf, SKOS.broader, SKOS.narrower):
        found += statements[prop]
    concepts = list(dict.fromkeys(found))
    number = {concept: i for i, concept in enumerate(concepts, start=1)}
    schemes = [scheme for scheme, kind in kinds if SKOS.ConceptScheme in kind]
    asked = language.lower()

    def rank(label: Any) -> tuple[int, str, str]:
        tag = (getattr(label, "language", None) or "").lower()
        same = tag.split("-")[0] == asked.split("-")[0]
        return (0 if tag == asked else 1 if same else 2 if not tag else 3, tag, str(label))

    def best_label(thing: Any, *properties: Any) -> Any:
        groups = ([o for o in objects(thing, p) if o.strip()] for p in properties)
        return next((min(group, key=rank) for group in groups if group), None)

    def keywords_of(thing: Any, name: str, tag: str | None) -> list[str] | None:
        labels = objects(thing, SKOS.altLabel, SKOS.hiddenLabel)
        words = [str(o) for o in labels if rank(o)[0] < 3 or (tag and o.language == tag)]
        if not words or thing.startswith(_URN):  # a file of ours has exactly the keywords
            return words or None
        return [*default_keywords(name), *words]

    names, parent, where = [""], [-1], [""]
    keywords: list[list[str] | None] = [None]
    if len(schemes) == 1:
        title = best_label(schemes[0], SKOS.prefLabel, DCTERMS.title, DC.title, RDFS.label)
        names[0] = str(title or "")
        keywords[0] = keywords_of(schemes[0], names[0], None)
    many = lost = unnamed = foreign = 0
    for concept in concepts:
        label = best_label(concept, SKOS.prefLabel, RDFS.label)
        above = broader.get(concept, {})
        known = [number[b] for b in above if b in number]
        many += len(known) > 1
        lost += len(above) > 0 and not known
        unnamed += label is None
        foreign += label is not None and rank(label)[0] == 3
        names.append(re.split("[/#:]", concept)[-1] if label is None else str(label))
        parent.append(known[0] if known else 0)
        where.append(str(concept))
        keywords.append(keywords_of(concept, names[-1], getattr(label, "language", None)))
    counted = [
        (many, "with more than one broader concept: the first was kept"),
        (lost, "below one that is not in the file: put below the root"),
        (unnamed, "without a label: named by the end of the address"),
        (foreign, f'without a label in "{language}": another language was taken'),
    ]
    notes = [f"{n:,} concept{'s' * (n > 1)} {what}" for n, what in counted if n]
    return Taxonomy(names, parent, keywords, notes=notes, where=where)


def _parse_rdf(data: bytes, format: str) -> Any:
    """Statements of a file: property → subject → objects, each in the order of the file."""
    try:
        from rdflib import Graph
        from rdflib.store import Store
    except ImportError:
        raise DependencyError(
            'To read SKOS, rdflib is needed: pip install "leafwise[skos]"'
        ) from None

    statements: Any = defaultdict(lambda: defaultdict(dict))

    class Collector(Store):
        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            subject, prop, value = triple
            statements[prop][subject][value] = None

    collecting = gc.isenabled()
    gc.disable()  # a third of the time: there are millions of objects, and none is garbage
    try:
        Graph(store=Collector()).parse(io.BytesIO(data), format=format.removeprefix("rdf"))
    except Exception as error:  # rdflib has no common class for what its parsers raise
        line = getattr(error, "lines", -1) + 1 or getattr(error, "_linenum", 0)
        why = getattr(error, "_why", None) or getattr(error, "_msg", None) or error
        place = f"line {line}: " if line else ""
        syntax = "Turtle" if format == "turtle" else "RDF/XML"
        raise TaxonomyError(f"{place}not valid {syntax}: {why}.") from None
    finally:
        if collecting:
            gc.enable()
    return statements


def _skos_statements(
    tree: Taxonomy, every: bool
) -> Iterator[tuple[str, str, list[tuple[str, str, bool]]]]:
    """For the scheme and each concept: address, class and (property, value, is a link)."""
    scheme = f"{_URN}scheme"
    address = [scheme, *(f"{_URN}node:{quote(path, safe='/')}" for path in tree.paths[1:])]
    for i, name in enumerate(tree.names):
        own = own_keywords(tree, i, every)
        # An empty label stands for "no keywords at all".
        words = [] if own is None else (list(own) or [""])
        facts = [("prefLabel", name, False)] if name else []
        facts += [("hiddenLabel", word, False) for word in words]
        if i:
            above = int(tree.parent[i])
            facts.append(("inScheme", scheme, True))
            facts.append(("broader" if above else "topConceptOf", address[above], True))
        yield address[i], "Concept" if i else "ConceptScheme", facts


def write_turtle(tree: Taxonomy, every: bool) -> str:
    parts = [f"@prefix skos: <{_SKOS}> .\n"]
    for address, kind, facts in _skos_statements(tree, every):
        parts.append(f"\n<{address}> a skos:{kind}")
        for name, value, is_link in facts:
            # JSON escapes a string as Turtle does.
            text = f"<{value}>" if is_link else json.dumps(value, ensure_ascii=False)
            parts.append(f" ;\n    skos:{name} {text}")
        parts.append(" .\n")
    return "".join(parts)


def write_rdfxml(tree: Taxonomy, every: bool) -> str:
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<rdf:RDF xmlns:rdf="{_RDF}" xmlns:skos="{_SKOS}">\n'
    ]
    for address, kind, facts in _skos_statements(tree, every):
        parts.append(f'  <skos:{kind} rdf:about="{address}">\n')
        for name, value, is_link in facts:
            if is_link:
                parts.append(f'    <skos:{name} rdf:resource="{value}"/>\n')
            else:
                parts.append(f"    <skos:{name}>{xml_escape(value)}</skos:{name}>\n")
        parts.append(f"  </skos:{kind}>\n")
    return "".join([*parts, "</rdf:RDF>\n"])
