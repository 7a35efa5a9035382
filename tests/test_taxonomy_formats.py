"""Trees in files: every format there and back, and what is said about files that are wrong."""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leafwise.exceptions import DependencyError, OutputError, TaxonomyError
from leafwise.taxonomy import Taxonomy, clean

ROOT = Path(__file__).resolve().parents[1]
FILES = ["t.yaml", "t.json", "t.csv", "t.tsv", "t.ttl", "t.rdf"]
SKOS_PREFIX = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"


def load_text(folder, name, text, **options):
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Taxonomy.load(path, **options)


def error_of(folder, name, text, **options):
    with pytest.raises(TaxonomyError) as error:
        load_text(folder, name, text, **options)
    return str(error.value).replace(str(folder) + os.sep, "")


# ---- there and back ----

ODD_NAMES = [
    *("no", "null", "~", "1.0", "0x1F", "2024-01-01", "true", "", "=", "<<", "? a", "- a", "a: b"),
    *("a/b", "/", "\\", "a\\/b", "\\\\", "'", '"', 'say "x"', "a, b", "a;b", "#x", "&a", "*a", "%"),
    *(
        "keywords",
        "children",
        "name",
        "path",
        "ROOT",
        "<b>&amp;</b>",
        "]]>",
        "{x}",
        "[y]",
        "|",
        ">",
    ),
    *("été", "日本語", "😀", "a\u200db", "\u00ad", "\x80", "x" * 300, "a b", "@a", "`", "!t", "b:"),
]
names = st.one_of(
    st.sampled_from(ODD_NAMES),
    st.text(
        st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff\ufffe\uffff"),
        max_size=8,
    ),
)


@st.composite
def trees(draw, unique=False):
    """Random trees with odd names and odd keywords; each name once if `unique`."""
    n = draw(st.integers(1, 9))
    labels, parent = [draw(st.sampled_from(["", "News"]))], [-1]
    taken = set()
    for i in range(1, n + 1):
        above = draw(st.integers(0, i - 1))
        label = clean(draw(names))
        if not label or (label if unique else (above, label)) in taken:
            label = f"node {i}"
        taken.add(label if unique else (above, label))
        labels.append(label)
        parent.append(above)
    words = st.none() | st.lists(names, max_size=3)
    keywords = draw(st.lists(words, min_size=n + 1, max_size=n + 1))
    return Taxonomy(labels, parent, keywords)


def without_root_name(tree):
    return Taxonomy(["", *tree.names[1:]], tree.parent, tree.keywords)


@settings(deadline=None)
@given(trees())
def test_nested_mappings_there_and_back(tree):
    assert Taxonomy.from_dict(tree.to_dict()) == tree
    assert json.loads(json.dumps(tree.to_dict())) == tree.to_dict()


@pytest.mark.parametrize("name", FILES)
@settings(deadline=None, max_examples=60)
@given(tree=trees())
def test_files_there_and_back(tmp_path_factory, name, tree):
    path = tmp_path_factory.mktemp("trees") / name
    tree.save(path)
    again = Taxonomy.load(path)
    assert again == (without_root_name(tree) if name in ("t.csv", "t.tsv") else tree)
    assert again.notes == ()
    assert os.listdir(path.parent) == [name]


@settings(deadline=None, max_examples=60)
@given(tree=trees(unique=True).filter(lambda tree: "ROOT" not in tree.names))
def test_weshclass_there_and_back(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("trees")
    tree.save(path, format="weshclass")
    assert sorted(os.listdir(path)) == ["keywords.txt", "label_hier.txt"]
    assert Taxonomy.load(path) == without_root_name(tree)
    assert Taxonomy.load(path / "label_hier.txt") == without_root_name(tree)


@settings(deadline=None, max_examples=60)
@given(tree=trees())
def test_other_readers_of_yaml_see_the_same_names(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("trees") / "t.yaml"
    tree.save(path)
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == tree.to_dict()


@settings(deadline=None, max_examples=40)
@given(tree=trees())
def test_other_readers_of_skos_see_the_same_labels(tmp_path_factory, tree):
    rdflib = pytest.importorskip("rdflib")
    folder = tmp_path_factory.mktemp("trees")
    graphs = []
    for name, syntax in (("t.ttl", "turtle"), ("t.rdf", "xml")):
        tree.save(folder / name)
        graphs.append(rdflib.Graph().parse(folder / name, format=syntax))
    turtle, xml = graphs
    assert set(turtle) == set(xml)
    concepts = set(turtle.subjects(rdflib.RDF.type, rdflib.SKOS.Concept))
    labels = sorted(str(turtle.value(c, rdflib.SKOS.prefLabel)) for c in concepts)
    assert labels == sorted(tree.names[1:])


def test_a_folder_there_and_back(tmp_path):
    tree = Taxonomy.from_paths(["a/c c", "a/d", "b", "été"])
    tree.save(tmp_path / "new")
    assert (tmp_path / "new" / "a" / "c c").is_dir()
    assert Taxonomy.load(tmp_path / "new") == tree


def test_a_folder_is_read_without_files_hidden_folders_and_links(tmp_path):
    for name in ("b/x", "a", ".git/objects"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "b" / "document.txt").write_text("some text")
    (tmp_path / "b" / "up").symlink_to(tmp_path)
    assert Taxonomy.load(tmp_path).paths == ("/", "a", "b", "b/x")


def test_a_folder_that_loses_keywords_says_so(tmp_path):
    tree = Taxonomy.from_paths(["a", "b"], {"a": ["x"]})
    with pytest.warns(UserWarning, match="Folders hold no keywords: those of 1 nodes are not in"):
        tree.save(tmp_path / "new")


def test_a_very_deep_tree(tmp_path):
    tree = Taxonomy([""] + ["x"] * 2000, range(-1, 2000))
    for name in ("t.yaml", "t.csv"):
        tree.save(tmp_path / name)
        assert Taxonomy.load(tmp_path / name) == tree
    with pytest.raises(TaxonomyError, match=r"t\.json: The tree is too deep for JSON; use YAML"):
        tree.save(tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()


# ---- each format as people write it ----


def example_tree():
    return Taxonomy.from_dict(
        {
            "sports": {"hockey": ["puck", "ice rink"], "baseball": None},
            "politics": {"keywords": ["government"], "children": {"guns": ["gun", "rifle"]}},
        }
    )


def test_the_examples_of_the_page_are_the_same_tree(tmp_path):
    page = (ROOT / "docs" / "taxonomies.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w+)\n(.*?)```", page, flags=re.DOTALL)
    endings = {"yaml": "yaml", "json": "json", "csv": "csv", "turtle": "ttl"}
    seen = []
    for kind, text in blocks:
        if kind in endings:
            assert load_text(tmp_path, f"t.{endings[kind]}", text) == example_tree()
            seen.append(kind)
    assert sorted(seen) == ["csv", "json", "json", "turtle", "yaml"]
    hierarchy, keywords = (text for kind, text in blocks if kind == "text")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "keywords.txt").write_text(keywords)
    assert load_text(tmp_path, "w/label_hier.txt", hierarchy) == example_tree()
    for ending in endings.values():
        assert f".{ending}`" in page


def test_yaml_names_are_what_was_typed(tmp_path):
    text = "no:\n  1.0:\n  0x1F: [yes, 1e3, null]\n  ~: null\n'null': ~\nplain: off\n"
    tree = load_text(tmp_path, "t.yaml", text)
    assert tree.names == ("", "no", "1.0", "0x1F", "~", "null", "plain")
    assert tree.keywords[3] == ("yes", "1e3", "null")
    assert tree.keywords[6] == ("off",)
    assert tree.keywords[5] == ("null",)


def test_yaml_without_its_compiled_library(tmp_path, monkeypatch):
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    monkeypatch.delattr(yaml, "CSafeDumper", raising=False)
    example_tree().save(tmp_path / "t.yaml")
    assert Taxonomy.load(tmp_path / "t.yaml") == example_tree()
    assert "line 2: not valid YAML: " in error_of(tmp_path, "t.yaml", "a: [b\nc: d\n")


def test_explicit_children_in_any_form(tmp_path):
    text = (
        "a: {children: [x, {name: y, keywords: k}]}\nb: {keywords: z}\nc: {children: {d: }}\nd: {}"
    )
    tree = load_text(tmp_path, "t.yaml", text)
    assert tree.paths == ("/", "a", "a/x", "a/y", "b", "c", "c/d", "d")
    assert tree.keywords[3:5] == (("k",), ("z",))


def test_nodes_with_the_names_of_the_explicit_form(tmp_path):
    tree = Taxonomy.from_paths(["a/keywords/x", "a/children", "name", "children/name"])
    assert Taxonomy.from_dict(tree.to_dict()) == tree
    tree.save(tmp_path / "t.yaml")
    assert Taxonomy.load(tmp_path / "t.yaml") == tree
    with_name = load_text(tmp_path, "t.json", '{"name": null, "other": null}')
    assert with_name.paths == ("/", "name", "other")


def test_an_object_that_is_the_root(tmp_path):
    text = """{"name": "flare", "keywords": "all", "children": [
        {"name": "a", "id": 7, "children": [{"name": "b", "value": 3}, {"name": 2}]}, "c"]}"""
    tree = load_text(tmp_path, "t.json", text)
    assert tree.names == ("flare", "a", "b", "2", "c")
    assert tree.keywords[0] == ("all",)
    assert tree.notes == ('ignored in the nodes: "id", "value"',)


def test_a_list_of_names_is_a_flat_tree():
    assert Taxonomy.from_dict(["a", "b"]).paths == ("/", "a", "b")


def test_from_dict_takes_numbers_for_names():
    assert Taxonomy.from_dict({2: {1.5: None}}).paths == ("/", "2", "2/1.5")


def test_csv_as_spreadsheets_write_it(tmp_path):
    text = '\ufeffPATH,Note,Keywords,\r\n"a/b, c",x,"p, q",\r\n,,,\r\n/d/,,two words\r\ne\r\n'
    tree = load_text(tmp_path, "t.csv", text)
    assert tree.paths == ("/", "a", "a/b, c", "d", "e")
    assert tree.keywords[2:] == (("p", "q"), ("two", "words"), ("e",))
    assert tree.notes == ('ignored columns: "note"',)


def test_csv_with_paths_only(tmp_path):
    assert load_text(tmp_path, "t.csv", "path\na/b\n").paths == ("/", "a", "a/b")


def test_csv_can_hold_keywords_of_the_root(tmp_path):
    assert load_text(tmp_path, "t.csv", "path,keywords\n/,x\na,\n").keywords == (("x",), ("a",))


def test_newsgroups15(data_dir):
    tree = Taxonomy.load(data_dir / "newsgroups15.csv")
    assert repr(tree) == "Taxonomy(n_nodes=21, n_leaves=15, depth=2)"
    assert tree.keywords[tree.index("comp.windows.x")] == ("motif", "x11", "xterm")


def test_weshclass_in_looser_hands(tmp_path):
    (tmp_path / "keywords.txt").write_text(
        "politics: law, public order\ngun control\trifle gun\n\n"
        "sports hockey\nROOT\tnews\nice:\tpuck\n"
    )
    text = "politics\tgun control\tgun\nROOT\tpolitics\tsports\n\nsports ice\n"
    tree = load_text(tmp_path, "label_hier.txt", text)
    assert tree.paths == (
        *("/", "politics", "politics/gun control", "politics/gun", "sports", "sports/ice"),
    )
    assert tree.keywords == (
        *(("news",), ("law", "public order"), ("rifle", "gun"), ("gun",), ("hockey",), ("puck",)),
    )


def test_weshclass_without_keywords_and_with_another_root(tmp_path):
    tree = load_text(tmp_path, "label_hier.txt", "top\ta\tb\n")
    assert tree.names == ("top", "a", "b")


def test_weshclass_gets_the_keywords_of_every_leaf(tmp_path):
    example_tree().save(tmp_path, format="weshclass")
    assert (tmp_path / "keywords.txt").read_text().splitlines() == [
        "hockey\tpuck; ice rink",
        "baseball\tbaseball",
        "politics\tgovernment",
        "guns\tgun rifle",
    ]


# ---- SKOS ----

THESAURUS = (
    SKOS_PREFIX
    + """
@prefix x: <http://example.org/> .
@prefix dct: <http://purl.org/dc/terms/> .
x:s a skos:ConceptScheme ; dct:title "Vehicles"@en, "Fahrzeuge"@de ; skos:hasTopConcept x:car .
x:car a skos:Concept ; skos:prefLabel "Car"@en, "Auto"@de, "Car-GB"@en-GB ;
    skos:altLabel "motor car"@en, "Wagen"@de, "4wheels" ; skos:hiddenLabel "crar"@en ;
    skos:narrower x:suv .
x:truck a skos:Concept ; skos:prefLabel "Truck", "LKW"@de ; skos:topConceptOf x:s .
x:pickup a skos:Concept ; skos:prefLabel "Camioneta"@es, "Cami\u00f3n"@pt ;
    skos:broader x:truck, x:car ; skos:altLabel "troca"@es .
x:suv a skos:Concept ; skos:prefLabel "SUV"@en-US .
x:bike a skos:Concept ; skos:broader <http://elsewhere.org/cycle> .
"""
)


def test_skos(tmp_path):
    tree = load_text(tmp_path, "t.ttl", THESAURUS)
    assert tree.names == ("Vehicles", "Car", "SUV", "Truck", "Camioneta", "bike")
    assert tree.paths[4] == "Truck/Camioneta"  # the first of the two parents
    assert tree.keywords == (
        ("vehicles",),
        ("car", "motor car", "4wheels", "crar"),
        ("suv",),
        ("truck",),
        ("camioneta", "troca"),
        ("bike",),
    )
    assert tree.notes == (
        "1 concept with more than one broader concept: the first was kept",
        "1 concept below one that is not in the file: put below the root",
        "1 concept without a label: named by the end of the address",
        '1 concept without a label in "en": another language was taken',
    )


def test_skos_in_another_language(tmp_path):
    tree = load_text(tmp_path, "t.ttl", THESAURUS, language="de")
    assert tree.names == ("Fahrzeuge", "Auto", "SUV", "LKW", "Camioneta", "bike")
    assert tree.keywords[1] == ("auto", "Wagen", "4wheels")
    assert tree.notes[-1] == '2 concepts without a label in "de": another language was taken'


def test_a_regional_language_falls_back_on_the_language(tmp_path):
    british = load_text(tmp_path, "t.ttl", THESAURUS, language="en-GB")
    assert british.names[1:3] == ("Car-GB", "SUV")


def test_skos_in_xml_of_another_encoding(tmp_path):
    text = """<?xml version="1.0" encoding="ISO-8859-1"?>
    <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
             xmlns:skos="http://www.w3.org/2004/02/skos/core#">
      <skos:Concept rdf:about="http://x/1"><skos:prefLabel>\xe9t\xe9</skos:prefLabel></skos:Concept>
    </rdf:RDF>"""
    assert load_text(tmp_path, "t.xml", text.encode("latin-1")).names == ("", "été")


def test_skos_takes_no_text_from_other_files(tmp_path):
    (tmp_path / "secret").write_text("SECRET")
    text = f"""<!DOCTYPE r [<!ENTITY s SYSTEM "{(tmp_path / "secret").as_uri()}">]>
    <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
             xmlns:skos="http://www.w3.org/2004/02/skos/core#">
      <skos:Concept rdf:about="http://x/1"><skos:prefLabel>A &s;</skos:prefLabel></skos:Concept>
    </rdf:RDF>"""
    assert load_text(tmp_path, "t.rdf", text).names == ("", "A")


def test_skos_without_rdflib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdflib", None)
    with pytest.raises(DependencyError, match=r'rdflib is needed: pip install "leafwise\[skos\]"'):
        load_text(tmp_path, "t.ttl", THESAURUS)


# ---- files that are wrong ----


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        # the tree
        (
            "t.yaml",
            "a:\n  b:\n  c:\n  b: x\n",
            'of "a" (line 1) are called "b" (line 2 and line 4).',
        ),
        ("t.yaml", "a:\nb:\na :\n", 'Two children of the root are called "a" (line 1 and line 3).'),
        ("t.json", '{"a": {"b": null, "b": []}}', 'Two children of "a" are called "b".'),
        ("t.csv", "path\na/b\nc\n/a/b/\n", 'line 2 and line 4 have the same path, "a/b". Remove'),
        ("w/label_hier.txt", "ROOT\ta\ta\n", '"ROOT" (label_hier.txt, line 1) are called "a".'),
        ("t.yaml", "a:\n  '': x\n", 'A child of "a" (line 1) has an empty name (line 2).'),
        ("t.json", '{"a": {" ": null}}', 'A child of "a" has an empty name.'),
        ("t.csv", "path\na//b\n", 'A child of "a" (line 2) has an empty name (line 2).'),
        ("t.csv", "path,keywords\n,x\n", "line 2: the path is empty."),
        ("w/label_hier.txt", "ROOT\ta\t\tb\n", "label_hier.txt, line 1: a name is empty."),
        ("w/label_hier.txt", "ROOT\ta\nx\ty\n", 'label_hier.txt, line 2: unknown parent "x".'),
        (
            "w/label_hier.txt",
            "r\ta\nx\ty\n",
            '2 nodes have no parent: "r" (label_hier.txt, line 1) and "x" (label_hier.txt, line 2)',
        ),
        (
            "w/label_hier.txt",
            "ROOT\ta\tb\na\tc\nb\tc\n",
            '"c" has two parents, "a" (label_hier.txt, line 2) and "b" (label_hier.txt, line 3).',
        ),
        (
            "w/label_hier.txt",
            "ROOT\ta\nb\tc\nc\tb\n",
            'in a cycle: "b" (label_hier.txt, line 3) → "c" (label_hier.txt, line 2) → "b"',
        ),
        (
            "t.ttl",
            SKOS_PREFIX + '<urn:a> skos:prefLabel "A"; skos:broader <urn:b> .\n'
            '<urn:b> skos:prefLabel "B"; skos:broader <urn:a> .',
            'in a cycle: "A" (urn:a) → "B" (urn:b) → "A" (urn:a).',
        ),
        (
            "t.ttl",
            SKOS_PREFIX + '<urn:a> a skos:Concept; skos:prefLabel "A" .\n'
            '<urn:b> a skos:Concept; skos:prefLabel "A" .',
            'Two children of the root are called "A" (urn:a and urn:b).',
        ),
        # the encoding
        ("t.yaml", b"a:\n  caf\xe9: x\n", "line 2: byte 0xe9 (number 8 of the file) is not UTF-8."),
        ("t.csv", "path\na\n".encode("utf-16"), "line 1: byte 0xff (number 0 of the file) is not"),
        ("t.ttl", b'<a> <b> "\xe9" .', "line 1: byte 0xe9 (number 9 of the file) is not UTF-8."),
        # the syntax
        ("t.yaml", "a: [b\nc: d\n", "line 2: not valid YAML: did not find expected ',' or ']'."),
        ("t.yaml", "a:\n\tb: x\n", "line 2: not valid YAML: found character that cannot start"),
        ("t.yaml", "a:\nb\0: x\n", "line 2: not valid YAML: unacceptable character #x0000"),
        (
            "t.yaml",
            'a: "x\\0y"\n',
            r"""The keywords of "a": The keyword 'x\x00y' holds a control""",
        ),
        ("t.yaml", "a: &x\n  b:\nc: *x\n", "line 3: write *x out in full."),
        ("t.yaml", "a:\n---\nb:\n", "It holds several YAML documents; a tree is one."),
        ("t.yaml", "? [a, b]\n: c\n", "A name must be text, not a list of 2."),
        (
            "t.json",
            '{"a": {"b": null,\n "c" []}}',
            "line 2: not valid JSON: Expecting ':' delimiter.",
        ),
        ("t.json", "[" * 100_000, "It is nested too deep for JSON; use YAML or CSV."),
        ("t.csv", 'path,keywords\na,"b\n', "line 2: unexpected end of data."),
        ("t.csv", "path,keywords\na,b,c\n", "line 2: 3 cells, but the header has 2. Put quotes"),
        (
            "t.csv",
            "a,b\n",
            'line 1: the first line must be the header "path,keywords", but its first',
        ),
        ("t.tsv", "path,keywords\n", 'but its first cell is "path,keywords".'),
        ("t.csv", "path,keywords,Keywords\na\n", "line 1: two columns of the header have the same"),
        (
            "t.ttl",
            SKOS_PREFIX + "<urn:a> skos:b ;\n",
            "line 2: not valid Turtle: objectList expected.",
        ),
        ("t.rdf", "<rdf>\n<x></rdf>", "line 2: not valid RDF/XML: mismatched tag."),
        # the nested forms
        ("t.yaml", "just text", 'A tree is a mapping of names, not "just text".'),
        (
            "t.yaml",
            "a:\n  - b: c\n",
            'The list below "a" (line 1) must hold keywords, not a mapping',
        ),
        (
            "t.yaml",
            "a: {keywords: {b: c}}",
            'The value of "a" (line 1) must be nothing, keywords or',
        ),
        ("t.yaml", "a: {children: b}", 'The children of "a" (line 1) must be a mapping or a list.'),
        ("t.yaml", "a: {keywords: x, keywords: y}", '(line 1) has "keywords" or "children" twice.'),
        ("t.json", '{"a": true}', 'The value of "a" must be nothing, keywords or a mapping of'),
        (
            "t.json",
            '[{"title": "x"}]',
            'in a list must be names or objects with a "name", not a map',
        ),
        ("t.json", '{"name": "r", "children": [3, [4]]}', '"name", not a list of 1.'),
        # the file
        ("t.yaml", "", "t.yaml: It is empty."),
        ("t.ttl", " \n", "t.ttl: It is empty."),
        ("t.yaml", "# nothing\n", "t.yaml: It holds no nodes."),
        ("t.json", "{}", "t.json: It holds no nodes."),
        ("t.csv", "path,keywords\n", "t.csv: It holds no nodes."),
        ("t.ttl", SKOS_PREFIX, "t.ttl: It holds no nodes."),
        (
            "t.xlsx",
            "x",
            't.xlsx: the ending ".xlsx" is that of no known format. Known are yaml (.ya',
        ),
        ("noending", "x", 'the ending "" is that of no known format.'),
    ],
)
def test_a_file_that_is_wrong(tmp_path, name, text, message):
    said = error_of(tmp_path, name, text)
    assert message in said
    assert said.startswith(name.split("/")[0])
    assert "\n" not in said


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        (
            "a\tx\nhokey\ty\n",
            'keywords.txt, line 2: label_hier.txt has no node "hokey". Did you mean',
        ),
        ("a\tx\n\na: y\n", 'keywords.txt, line 3: "a" has its keywords on line 1 already.'),
        ("a b\tx\n", 'keywords.txt, line 1: label_hier.txt has no node "a b".'),
    ],
)
def test_keywords_of_weshclass_that_are_wrong(tmp_path, keywords, message):
    (tmp_path / "keywords.txt").write_text(keywords)
    with pytest.raises(TaxonomyError, match=re.escape(message)):
        load_text(tmp_path, "label_hier.txt", "ROOT\ta\thockey\n")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TaxonomyError, match=r"There is no file or folder .*missing\.yaml\."):
        Taxonomy.load(tmp_path / "missing.yaml")


def test_a_folder_where_a_file_was_expected(tmp_path):
    with pytest.raises(TaxonomyError, match="cannot be read: Is a directory"):
        Taxonomy.load(tmp_path, format="yaml")


def test_a_folder_without_folders(tmp_path):
    with pytest.raises(TaxonomyError, match="It holds no nodes"):
        Taxonomy.load(tmp_path)


def test_unknown_formats_list_the_known_ones(tmp_path):
    known = (
        "Known are yaml (.yaml, .yml), json (.json), csv (.csv), tsv (.tsv), turtle (.ttl), "
        "rdfxml (.rdf, .xml), folder, weshclass."
    )
    said = error_of(tmp_path, "t.csv", "path\na\n", format="excel")
    assert said == f'Unknown format "excel". {known}'
    with pytest.raises(TaxonomyError, match=re.escape(known)):
        example_tree().save(tmp_path / "t.xlsx")


def test_the_format_can_be_given(tmp_path):
    assert load_text(tmp_path, "topics.txt", "path\na\n", format="csv").paths == ("/", "a")


def test_a_mapping_inside_itself():
    nested = {"a": {"b": None}}
    nested["a"]["c"] = nested["a"]
    with pytest.raises(TaxonomyError, match='"c" holds itself, in a cycle'):
        Taxonomy.from_dict(nested)


def test_a_mapping_that_stands_in_two_places_is_no_cycle():
    shared = {"x": None}
    assert Taxonomy.from_dict({"a": shared, "b": shared}).paths == ("/", "a", "a/x", "b", "b/x")


def test_from_dict_wants_names():
    with pytest.raises(TaxonomyError, match='A name must be text, not "None"'):
        Taxonomy.from_dict({None: None})


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=60), st.sampled_from([*FILES, "w/label_hier.txt"]))
@example(b"{}", "t.rdf")
@example(b"path\n\\", "t.csv")
def test_whatever_the_bytes_there_is_a_tree_or_a_sentence(tmp_path_factory, data, name):
    path = tmp_path_factory.mktemp("bytes") / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    try:
        said = repr(Taxonomy.load(path))
    except TaxonomyError as error:
        said = str(error)
    assert said.startswith((str(path.parent), "Taxonomy(n_nodes="))


# ---- saving ----


def test_saving_replaces_a_file_as_a_whole(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text("old: tree\n" * 1000)
    example_tree().save(path)
    assert path.read_text() == (
        "sports:\n  hockey: [puck, ice rink]\n  baseball:\n"
        "politics:\n  keywords: [government]\n  children:\n    guns: [gun, rifle]\n"
    )
    assert os.listdir(tmp_path) == ["t.yaml"]


def test_saving_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real.csv").write_text("path\nold\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    example_tree().save(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert Taxonomy.load(tmp_path / "real.csv") == example_tree()


def test_a_failed_save_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "t.yaml").mkdir()
    with pytest.raises(OutputError, match=r"Cannot write .*t\.yaml: it is a folder"):
        example_tree().save(tmp_path / "t.yaml", format="yaml")
    assert os.listdir(tmp_path) == ["t.yaml"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("missing/t.yaml", {}, "missing. Make it first."),
        ("full", {"format": "folder"}, "full: There is something there already; save into a new"),
        ("new", {"format": "weshclass"}, '"x" is that of "a/x" and "b/x". Choose another format'),
    ],
)
def test_a_place_that_cannot_be_saved_to(tmp_path, name, options, message):
    (tmp_path / "full" / "something").mkdir(parents=True)
    with pytest.raises((TaxonomyError, OutputError), match=re.escape(message)):
        Taxonomy.from_paths(["a/x", "b/x"]).save(tmp_path / name, **options)
    assert os.listdir(tmp_path) == ["full"]


@pytest.mark.parametrize("name", ["a/b", ".hidden", ".."])
def test_names_that_cannot_be_folders(tmp_path, name):
    with pytest.raises(TaxonomyError, match=re.escape(f'"{name}" cannot be the name of a folder')):
        Taxonomy(["", name], [-1, 0]).save(tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_a_node_called_root_cannot_be_saved_for_weshclass(tmp_path):
    with pytest.raises(TaxonomyError, match='"ROOT" is that of "/" and "a/ROOT"'):
        Taxonomy.from_paths(["a/ROOT"]).save(tmp_path / "new", format="weshclass")


# ---- size ----


def test_ten_thousand_nodes_in_every_text_format(tmp_path):
    # A tenth of what must load in seconds.
    paths = [f"t{i % 40}/middle number {i % 900}/leafNode {i}" for i in range(10_000)]
    tree = Taxonomy.from_paths(paths, {path: ["one", "two words"] for path in paths[::5]})
    for name in ("t.yaml", "t.json", "t.csv", "t.tsv"):
        start = time.process_time()
        tree.save(tmp_path / name)
        assert Taxonomy.load(tmp_path / name) == tree
        assert time.process_time() - start < 20
