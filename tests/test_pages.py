"""The pages, as a browser without JavaScript gets them."""

import re
import xml.etree.ElementTree as ElementTree
from html import unescape
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from leafwise import Taxonomy
from leafwise.corpus import Batch
from leafwise.exceptions import TaxonomyError
from leafwise.review.progress import Point
from leafwise.store import Project
from leafwise.taxonomy_changes import rename

pytest.importorskip("fastapi", reason="needs the extra leafwise[web]")

from web_server import make_project, running

from leafwise.review.workbench import Explained, Mark
from leafwise.web.charts import curve
from leafwise.web.pages import Browsers, beginning, local, percent
from leafwise.web.pages_nodes import find
from leafwise.web.pages_pasted import read_tree
from leafwise.web.pages_texts import SHOWN, view_of

PAGES = ["/start", "/tree", "/review", "/documents", "/documents/1", "/progress", "/grow", "/try",
         "/reviewer", "/node?path=animals", "/node?path=/", "/tree?q=cat", "/login"]  # fmt: skip
LABELS = ["animals/cats", "animals/dogs", "vehicles/boats", "vehicles/cars/racing"]
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"


def add(project, texts, labels=None, prefix="doc-"):
    n = len(texts)
    ids = [f"{prefix}{i}" for i in range(n)]
    batch = Batch(texts, labels or [()] * n, ids, list(range(1, n + 1)), {})
    return project.documents.add([batch])


@pytest.fixture(scope="module")
def made(pets, pet_texts, tmp_path_factory):
    labels = [label for label in LABELS for _ in range(len(pet_texts) // 4)]
    path = tmp_path_factory.mktemp("pages") / "pets.leafwise"
    with make_project(path, pets, pet_texts, labels, name="Pets & co") as project:
        yield project


@pytest.fixture
def project(made, tmp_path):
    """A copy of the fitted project, to change."""
    made.backup(tmp_path / "copy.leafwise")
    with Project(tmp_path / "copy.leafwise") as project:
        yield project


@pytest.fixture
def site(project):
    with running(project, reviewer="Ada") as client:
        client.follow_redirects = True
        yield client


@pytest.fixture
def empty(tmp_path):
    with Project.create(tmp_path / "new.leafwise", name="New") as project:
        yield project


@pytest.fixture
def new_site(empty):
    with running(empty, reviewer="Ada") as client:
        client.follow_redirects = True
        yield client


def text_of(response) -> str:
    """What a page says, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", response.text)).split())


def field(response, name: str, n: int = 0) -> str:
    found = re.findall(rf'name="{name}" value="([^"]*)"', response.text)
    return unescape(found[n])


def answer(site, page=None, **given):
    page = page or site.get("/review")
    hidden = {name: field(page, name) for name in ("document", "seen", "asked", "token")}
    return site.post("/review/answer", data=hidden | given)


# ---- every page ---------------------------------------------------------------------------------


def test_every_page_is_whole_and_keeps_to_the_policy(site):
    for address in PAGES:
        page = site.get(address)
        assert page.status_code == 200, address
        assert page.headers["content-type"].startswith("text/html")
        assert len(re.findall(r"<h1[ >]", page.text)) == 1, address
        assert '<html lang="en">' in page.text
        assert '<main id="main"' in page.text
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page.text), address
        assert "http://" not in page.text.replace("http://127.0.0.1", ""), address
        ids = re.findall(r'\sid="([^"]*)"', page.text)
        assert len(ids) == len(set(ids)), address
        for target in re.findall(r'<label[^>]* for="([^"]*)"', page.text):
            assert target in ids, (address, target)


def test_menu_says_where_one_is_and_files_are_there(site):
    page = site.get("/progress")
    assert '<a href="/progress" aria-current="page">Progress</a>' in page.text
    assert "Pets &amp; co" in page.text
    for file in re.findall(r'(?:src|href)="(/static/[^"]*)"', page.text):
        assert site.get(file).status_code == 200


def test_home_leads_to_the_tree_or_to_the_start(site, new_site):
    assert site.get("/").url.path == "/tree"
    assert new_site.get("/").url.path == "/start"


def test_page_that_is_not_there_and_numbers_that_are_none(site):
    for address in ("/nowhere", "/documents/999999", "/grow/7", "/node?path=unicorns"):
        page = site.get(address, headers={"Accept": "text/html"})
        assert page.status_code == 404, address
        assert '<p role="alert">' in page.text
    assert "There is no document number 999999." in text_of(site.get("/documents/999999"))
    assert 'No node is called "unicorns"' in text_of(site.get("/node?path=unicorns"))
    for address in ("/documents/99999999999999999999999", "/documents/x", "/tree?from=-1",
                    "/documents?after=nonsense", "/documents?state=odd"):  # fmt: skip
        assert 400 <= site.get(address).status_code < 500, address


def test_reviewer_says_who_they_are(site, project):
    page = site.post("/reviewer", data={"name": "  Zoë   O'Hara "})
    assert "kept under the name Zoë O'Hara from now on" in text_of(page)
    answer(site, labels="animals/cats")
    assert project.labels.answers(source="review")[-1].by == "Zoë O'Hara"
    page = site.post("/reviewer", data={"name": "   ", "then": "/try"})
    assert "A name is at least one letter or digit." in text_of(page)
    assert field(page, "then") == "/try"


def test_who_says_their_name_comes_back_to_where_they_were(site):
    page = site.get("/node?path=animals/cats&note=old")
    link = unescape(re.search(r'href="(/reviewer\?then=[^"]*)"', page.text)[1])
    then = field(site.get(link), "then")
    assert then == "/node?path=animals%2Fcats"
    page = site.post("/reviewer", data={"name": "Grace", "then": then})
    assert (page.url.path, page.url.params["path"]) == ("/node", "animals/cats")
    assert "kept under the name Grace" in text_of(page)
    page = site.post("/reviewer", data={"name": "Grace", "then": "//evil.example"})
    assert page.url.path == "/tree"


def test_browsers_without_a_name_are_told_apart(project, pets):
    def name(page):
        return unescape(re.search(r'title="Who you are[^>]*>([^<]*)<', page.text)[1])

    with running(project, reviewer="Ada") as one:
        two, three = (httpx.Client(base_url=one.base_url) for _ in range(2))
        with two, three:
            pages = [client.get("/review") for client in (one, two, three)]
            assert [name(page) for page in pages] == ["Ada", "Ada 2", "Ada 3"]
            assert len({field(page, "document") for page in pages}) == 3
            answer(two, pages[1], labels="animals/cats")
            assert project.labels.answers(source="review")[-1].by == "Ada 2"
            assert [name(client.get("/tree")) for client in (one, two, three)] == [
                "Ada", "Ada 2", "Ada 3",
            ]  # fmt: skip
            three.post("/reviewer", data={"name": "Grace"})
            assert name(three.get("/tree")) == "Grace"
            cookies = dict(two.cookies)
    with running(project, reviewer="Ada") as again:  # the number outlives the server
        assert name(again.get("/tree", headers=_cookie_header(cookies))) == "Ada 2"
        assert name(again.get("/tree")) == "Ada"


def _cookie_header(cookies):
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}


def test_numbers_of_browsers():
    browsers = Browsers()
    first, cookie = browsers.number("", True)
    assert (first, cookie[:2]) == (1, "1.")
    assert browsers.number(cookie, True) == (1, None)
    second, other = browsers.number("1.0123456789ab", True)  # someone else's number
    assert (second, other[:2]) == (2, "2.")
    assert browsers.number("nonsense", False) == (1, None)
    browsers._known[2] = (other[2:], 0.0)  # never came back
    assert browsers.number("", True)[0] == 2


def test_nobody_can_make_a_page_say_something(site):
    page = site.get("/tree?note=Your+project+is+broken")
    assert "broken" not in page.text


@pytest.mark.parametrize(
    ("address", "led"),
    [("/tree?q=a", "/tree?q=a"), ("//evil.example", "/"), ("/\\evil.example", "/"),
     ("https://evil.example", "/"), ("", "/"), ("/a\nb", "/")],
)  # fmt: skip
def test_pages_lead_to_pages_of_ours_alone(address, led):
    assert local(address) == led


def test_status_for_the_header(site):
    status = site.get("/status.json").json()
    assert status["state"] == "idle"
    assert status["text"] == "Learned 8 labels"


# ---- from nothing -------------------------------------------------------------------------------


def test_empty_project_leads_through(new_site, empty, pet_texts):
    page = new_site.get("/start")
    assert "Add documents" in text_of(page)
    assert "A review takes documents and a tree." in text_of(new_site.get("/review"))
    assert "No tree yet" in text_of(new_site.get("/tree"))
    page = new_site.post("/tree/new", data={"tree": "animals\n  cats: purr, cat\n  dogs\nboats"})
    assert page.url.path == "/start"
    assert "The tree has 4 nodes." in text_of(page)
    assert empty.tree.taxonomy.paths == ("/", "animals", "animals/cats", "animals/dogs", "boats")
    assert empty.tree.taxonomy.keywords[2] == ("purr", "cat")
    texts = "\n".join(pet_texts)
    page = new_site.post("/documents/paste", data={"texts": texts, "then": "/start"})
    assert f"{len(set(pet_texts))} documents added" in text_of(page)
    page = new_site.post("/documents/paste", data={"texts": texts, "then": "/start"})
    assert "0 documents added" in text_of(page)
    assert "Start to review" in text_of(page)
    assert new_site.get("/").url.path == "/tree"


def test_tree_that_cannot_be_read_is_kept_in_the_field(new_site, empty):
    page = new_site.post("/tree/new", data={"tree": "a:\n  - b\n c: ["})
    assert page.status_code == 422
    assert "a:\n  - b\n c: [</textarea>" in page.text
    assert '<div class="note bad" role="alert"' in page.text
    page = new_site.post("/tree/new", data={"tree": " \n "})
    assert "There is no tree in the field: paste one, or choose a file." in text_of(page)
    assert len(empty.tree.taxonomy) == 1


def test_second_tree_is_refused(site, project):
    page = site.post("/tree/new", data={"tree": "a\nb"})
    assert page.status_code == 409
    assert "There is a tree by now." in text_of(page)
    assert "animals" in project.tree.taxonomy


@pytest.mark.parametrize(
    ("text", "ending", "paths"),
    [
        ("a\n  b\n    c\n  d\ne", None, ["a", "a/b", "a/b/c", "a/d", "e"]),
        ("a\n\tb\n\n\tc", None, ["a", "a/b", "a/c"]),
        ("a/b/c\na/d", None, ["a", "a/b", "a/b/c", "a/d"]),
        ("a:\n  b: [x, y]\n  c:", None, ["a", "a/b", "a/c"]),
        ("b: [x, y]\nc: [z]", None, ["b", "c"]),
        ('{"a": {"b": null}}', None, ["a", "a/b"]),
        ("path,keywords\na/b,x y\na/c,", None, ["a", "a/b", "a/c"]),
        ("path\tkeywords\na/b\tx", None, ["a", "a/b"]),
        ("path,keywords\r\na/b,x", "csv", ["a", "a/b"]),
        ("\ufeffa\n b", "txt", ["a", "a/b"]),
        ("a:\n  b:", "yml", ["a", "a/b"]),
    ],
)
def test_trees_as_people_write_them(text, ending, paths):
    assert read_tree(text, ending).paths[1:] == tuple(paths)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  a\nb", "line 1: indented, but there is no name above it to be below."),
        ("a\n  : x", "line 2: a name is empty."),
        ("a//b", "line 1: a name is empty."),
        ("a\x00b", "holds a control character."),
        ("/".join("a" * 101), "The tree has 101 levels; 100 are taken here."),
        ("[" * 100_000, "nested"),
    ],
)
def test_trees_that_are_none(text, message):
    with pytest.raises(TaxonomyError, match=re.escape(message)):
        read_tree(text)


# ---- files --------------------------------------------------------------------------------------


def upload(site, name: str, data: bytes):
    return site.post(
        f"/documents/upload?name={quote(name, safe='')}&then=/documents",
        content=data,
        headers={"Accept": "application/json", "Content-Type": "application/octet-stream"},
    )


def told(site, response) -> str:
    assert response.status_code == 200, response.text
    return text_of(site.get(response.json()["to"]))


def test_file_is_added_once_and_bad_rows_are_told(new_site, empty):
    new_site.post("/tree/new", data={"tree": "cats\ndogs"})
    table = b"id,text,label\n1,a cat purrs,cats\n2,a dog,dogs\n3,,cats\n4,a horse,horses\n"
    said = told(new_site, upload(new_site, "pets.csv", table))
    assert "2 documents added, 2 of them with a label." in said
    assert "2 rows could not be used:" in said
    assert "line 4:" in said
    assert 'No node is called "horses"' in said
    changed = table.replace(b"a dog", b"a hound")
    said = told(new_site, upload(new_site, "pets.csv", changed))
    assert "0 documents added, 1 were there already, 1 have the id of a document" in said
    assert empty.documents.find("2").text == "a dog"


def test_labels_make_a_tree_where_there_is_none(new_site, empty):
    rows = b'{"text": "a cat", "label": "pets/cats"}\n{"text": "a dog", "label": "pets/dogs"}\n'
    said = told(new_site, upload(new_site, "pets.jsonl", rows))
    assert "Its labels make a tree of 3 nodes." in said
    assert empty.tree.taxonomy.paths == ("/", "pets", "pets/cats", "pets/dogs")
    assert empty.documents.find("pets.jsonl:1").labels == ("pets/cats",)


def test_labels_too_many_for_the_project_are_left_out(site, project):
    table = b"id,text,labels\nx,a cat and a dog,cats;dogs\n"
    said = told(site, upload(site, "two.csv", table))
    assert "1 rows have several labels, and a document of this project has one" in said
    assert project.documents.find("x").labels == ()


def test_name_of_a_file_is_no_path(site, project, tmp_path):
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in ("../../etc/passwd.txt", "..\\..\\evil.txt", "/abs/olute\x00.txt", "ü/ö.txt"):
        said = told(site, upload(site, name, f"a text of {len(name)} signs\n".encode()))
        assert "1 document added" in said
    keys = [document.key for document in project.documents.page(search="signs").documents]
    assert keys == ["passwd.txt:1", "evil.txt:1", "olute_.txt:1", "ö.txt:1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "data", "status", "message"),
    [
        ("x.exe", b"MZ", 422, "ends in none of .csv, .tsv, .jsonl, .parquet, .txt"),
        ("", b"text", 422, "ends in none of"),
        ("x.csv", b"", 422, "The file"),
        ("x.csv", b"id,colour\n1,red\n", 422, "has no column called text (or body, "),
        ("x.csv", b"hue,colour\n1,red\n", 422, 'Its columns: "hue", "colour".'),
        ("x.parquet", b"not parquet", 422, "Parquet"),
        ("x.csv", b"x" * (33 << 20), 413, "The body is larger than the 32 MiB"),
    ],
)
def test_files_that_cannot_be_added(site, project, name, data, status, message):
    n = project.documents.count()
    response = upload(site, name, data)
    assert response.status_code == status
    assert message in response.json()["error"]["message"]
    assert "/tmp" not in response.text
    assert " --" not in response.text  # options of the command line
    assert project.documents.count() == n


# ---- the tree -----------------------------------------------------------------------------------


def test_tree_shows_numbers_of_branches(site, project):
    said = text_of(site.get("/tree"))
    assert "7 nodes, 16 documents, 8 confirmed" in said
    counts = project.tree.counts()
    sums = project.tree.taxonomy.subtree_sum(counts.confirmed + counts.predicted)
    assert re.search(rf"animals 2 {sums[project.tree.taxonomy.index('animals')]} 4 ", said)


def test_nodes_are_found_by_name_and_keyword(site):
    assert "cats" in text_of(site.get("/tree?q=purr"))
    assert "No node has “xyz” in its name or keywords." in text_of(site.get("/tree?q=xyz"))
    found = site.get("/nodes.json?q=ca").json()["nodes"]
    assert [one["path"] for one in found][:2] == ["animals/cats", "vehicles/cars"]
    assert found[0]["above"] == "animals"


def test_finding_ranks_names_before_paths():
    tree = Taxonomy.from_paths(["sport/ball", "art/football", "ball games/chess", "ball"])
    paths = [tree.paths[i] for i in find(tree, "BALL", 10)]
    assert paths == ["ball", "sport/ball", "ball games", "art/football", "ball games/chess"]
    assert [tree.paths[i] for i in find(tree, "sport/b", 10)] == ["sport/ball"]
    assert [tree.paths[i] for i in find(tree, "", 2)] == ["sport", "art"]


@pytest.mark.parametrize("typed", ["zuge", "Züge", "ZU\u0308GE", "strasse/zu"])
def test_finding_does_not_mind_accents(typed):
    tree = Taxonomy.from_paths(["Straße/Züge", "Luft/Flüge"])
    assert [tree.paths[i] for i in find(tree, typed, 10)] == ["Straße/Züge"]


def edit(site, what, path, **given):
    page = site.get(f"/node?path={quote(path)}")
    hidden = {"what": what, "path": path, "seen": field(page, "seen"), "then": "/tree"}
    return site.post("/tree/edit", data=hidden | given)


def test_tree_is_edited_and_undone(site, project):
    before = project.tree.taxonomy
    steps = [
        ("add", "animals", {"name": "birds / fowl", "keywords": "wing, beak"}, "1 node added"),
        ("rename", "vehicles/boats", {"name": "ships"}, "1 node renamed"),
        ("keywords", "animals/cats", {"keywords": "meow, kitten"}, "Keywords of 1 node changed"),
        ("move", "vehicles/cars", {"to": "/"}, "1 node moved"),
        ("merge", "animals/dogs", {"to": "cats"}, "1 node merged"),
        ("remove", "vehicles/ships", {"keep": "1"}, "1 node merged"),
    ]
    for what, path, given, report in steps:
        page = edit(site, what, path, **given)
        assert page.status_code == 200, text_of(page)
        assert page.url.path == "/tree"
        assert report in text_of(page)
    tree = project.tree.taxonomy
    assert tree.paths == (
        "/", "animals", "animals/cats", "animals/birds \\/ fowl", "vehicles", "cars", "cars/racing",
    )  # fmt: skip
    assert tree.keywords[2] == ("meow", "kitten", "dog", "bark")
    assert project.documents.find("doc-8").labels == ("vehicles",)
    for _ in steps:
        page = site.post("/tree/undo", data={"edit": field(site.get("/tree"), "edit")})
        assert "Undone: " in text_of(page)
    assert project.tree.taxonomy == before
    assert project.documents.find("doc-8").labels == ("vehicles/boats",)
    assert "There is no change to undo." in text_of(site.post("/tree/undo"))


def test_edit_says_what_changed(site):
    page = edit(site, "rename", "animals/cats", name="felines")
    assert '1 node renamed: "animals/cats" to "felines".' in text_of(page)
    assert 'Renamed "animals/cats" to "felines" Ada today' in text_of(page)


def test_edit_from_the_page_of_a_node_leads_back_to_it(site):
    page = edit(site, "rename", "animals/cats", name="felines", then="/node?path=animals/cats")
    assert dict(page.url.params)["path"] == "animals/felines"
    page = edit(site, "remove", "animals/felines", then="/node?path=animals/felines")
    assert page.url.path == "/tree"


def test_edit_that_meets_another_loses_nothing(site, project):
    page = site.get("/node?path=animals/cats")
    tree = project.tree.taxonomy
    project.tree.edit(rename(tree, "animals", "beasts"), "Renamed animals", by="Bob")
    given = {"what": "keywords", "path": "animals/cats", "seen": field(page, "seen"),
             "keywords": "tabby, tom", "then": "/tree"}  # fmt: skip
    page = site.post("/tree/edit", data=given)
    assert page.status_code == 409
    assert "Someone else changed the tree meanwhile, so nothing was done." in text_of(page)
    assert "Bob changed it last: Renamed animals" in text_of(page)
    assert "is not there any more. You asked to give other keywords to it: tabby, tom." in text_of(
        page
    )
    page = site.get("/node?path=beasts/cats")
    given |= {"path": "beasts/cats", "seen": field(page, "seen")}
    project.tree.edit(rename(project.tree.taxonomy, "beasts", "animals"), "Back", by="Bob")
    project.tree.edit(rename(project.tree.taxonomy, "animals", "beasts"), "Forth", by="Bob")
    page = site.post("/tree/edit", data=given)
    assert page.status_code == 409
    assert 'name="keywords" value="tabby, tom"' in page.text
    given["seen"] = field(page, "seen")
    assert site.post("/tree/edit", data=given).status_code == 200
    assert project.tree.taxonomy.keywords[2] == ("tabby", "tom")
    page = edit(site, "rename", "beasts/cats", name="dogs")
    assert page.status_code == 422
    assert "a sibling has that name. Merge the two instead." in text_of(page)
    assert 'name="name" value="dogs"' in page.text


def test_undo_of_what_another_did_asks_first(site, project):
    edit(site, "rename", "animals/cats", name="felines")
    seen = field(site.get("/tree"), "edit")
    tree = project.tree.taxonomy
    project.tree.edit(rename(tree, "vehicles", "craft"), "Renamed vehicles", by="Bob")
    page = site.post("/tree/undo", data={"edit": seen})
    assert "Nothing was undone: meanwhile Bob changed the tree (Renamed vehicles)." in text_of(page)
    assert "craft" in project.tree.taxonomy


def test_edits_that_make_no_sense(site):
    page = edit(site, "move", "animals", to="animals/cats")
    assert '"animals" cannot be moved below itself' in text_of(page)
    page = edit(site, "merge", "animals/cats", to="unicorns")
    assert 'No node is called "unicorns"' in text_of(page)
    assert 'value="unicorns"' in page.text
    assert edit(site, "add", "animals", name=" ").status_code == 422
    assert edit(site, "explode", "animals").status_code == 422


def test_tree_is_downloaded_whole(site, project, tmp_path):
    links = re.findall(r'href="(/v1/export/taxonomy[^"]*)"', site.get("/tree").text)
    assert len(links) == 4
    for link in links:
        file = tmp_path / "again"
        file.write_bytes(site.get(link).content)
        assert Taxonomy.load(file, link.rpartition("=")[2]).paths == project.tree.taxonomy.paths


def test_page_of_a_node(site, project):
    said = text_of(site.get("/node?path=animals/cats"))
    assert "Words that set it apart from the node above" in said
    assert "Keywords cat purr" in said
    model_words = site.get("/node?path=animals/cats").text.split('id="words"')[1]
    assert "<li>purr</li>" in model_words.split("</section>")[0]
    page = answer(site, labels="vehicles/cars/racing")
    assert page.status_code == 200
    suggested = project.labels.answers(source="review")[-1].suggested
    if suggested != "vehicles/cars/racing":
        said = text_of(site.get(f"/node?path={quote(suggested)}"))
        assert "Times" in said


def test_documents_of_a_node_come_by_confidence(site, project):
    def shares(show):
        page = site.get(f"/node?path=/&show={show}")
        rows = page.text.split('<ul class="documents">')[1].split("</ul>")[0]
        ids = [int(id) for id in re.findall(r'href="/documents/(\d+)"', rows)]
        return [project.documents.get(id).prediction.probability for id in ids]

    unsure, sure = shares("unsure"), shares("sure")
    assert len(unsure) == 8
    assert unsure == sorted(unsure)
    assert sure == sorted(sure, reverse=True)
    page = site.get("/node?path=animals/cats&show=confirmed")
    assert "doc-0" in page.text
    assert "doc-1<" not in page.text


def test_ten_thousand_nodes_stay_usable(tmp_path):
    paths = [f"branch {i}/twig {j}" for i in range(100) for j in range(99)]
    wide = [f"one/leaf {i}" for i in range(300)]
    tree = Taxonomy.from_paths([*paths, *wide])
    with (
        Project.create(tmp_path / "big.leafwise", tree) as project,
        running(project) as client,
    ):
        client.get("/tree")
        page = client.get("/tree")
        assert len(page.content) < 300_000
        assert "twig 5" not in page.text
        rows = client.get("/tree/rows?under=branch 7")
        assert rows.text.count("<li>") == 99
        rows = client.get("/tree/rows?under=one")
        assert "100 more…" in rows.text
        assert client.get("/tree/rows?under=one&from=200").text.count("<li>") == 100
        assert "branch 42" in client.get("/tree/rows?q=branch 42/twig 7").text
        assert client.get("/nodes.json?q=twig 77").json()["nodes"][0]["name"] == "twig 77"


# ---- review -------------------------------------------------------------------------------------


def test_answers_are_saved_before_the_next_document_shows(site, project):
    page = site.get("/review")
    document = int(field(page, "document"))
    suggested = re.search(r'name="labels" value="([^"]*)" data-key="Enter"', page.text)[1]
    page = answer(site, page, labels=suggested)
    assert project.documents.get(document).labels == (suggested,)
    assert f"Saved: {suggested}, and the model has learned from it." in text_of(page)
    assert int(field(page, "document")) != document
    assert "1 answered in this session, 9 of 16 confirmed" in text_of(page)
    saved = project.labels.history(document)[-1]
    assert (saved.by, saved.source, saved.suggested) == ("Ada", "review", suggested)


def test_answer_for_javascript_brings_the_next_task(site, project):
    page = site.get("/review")
    data = {name: field(page, name) for name in ("document", "seen", "asked", "token")}
    data["labels"] = "cats"  # a name is enough
    headers = {"Accept": "application/json"}
    first = site.post("/review/answer", data=data, headers=headers)
    assert first.headers["content-type"] == "application/json"
    assert first.json()["said"].startswith("Saved: animals/cats")
    assert "data-answer" in first.json()["html"]
    n = len(project.labels.answers())
    again = site.post("/review/answer", data=data, headers=headers)  # a retry
    assert again.status_code == 200
    assert len(project.labels.answers()) == n
    assert again.json()["session"].startswith("1 answered")


def test_page_from_before_sent_again_with_another_answer(site, project):
    page = site.get("/review")
    document = int(field(page, "document"))
    answer(site, page, labels="animals/cats")
    n = len(project.labels.history(document))
    for _ in range(2):  # a correction, and the same one once more
        back = answer(site, page, labels="animals/dogs")
        assert "Saved: animals/dogs" in text_of(back)
        assert project.documents.get(document).labels == ("animals/dogs",)
        assert len(project.labels.history(document)) == n + 1
    site.post("/review/undo")
    site.post("/review/undo")
    assert project.documents.get(document).labels == ()
    assert "Saved: animals/cats" in text_of(answer(site, page, labels="animals/cats"))
    assert project.documents.get(document).labels == ("animals/cats",)


def test_nobody_conflicts_with_themselves(site, project):
    page = site.get("/review")
    document = int(field(page, "document"))
    answer(site, page, labels="animals/cats")
    late = {"seen": "0", "labels": "vehicles/boats"}
    kept = answer(site, page, **late, token="kept before", kept="1")
    assert "Saved: animals/cats" in text_of(kept)  # what was said later stays
    assert project.documents.get(document).labels == ("animals/cats",)
    assert "Saved: vehicles/boats" in text_of(answer(site, page, **late, token="now"))
    assert project.documents.get(document).labels == ("vehicles/boats",)
    project.labels.answer(document, ["animals/dogs"], by="Bob")
    other = answer(site, page, **late, token="again")
    assert other.status_code == 409
    assert "Bob said meanwhile: animals dogs" in text_of(other)


def test_someone_else_was_faster(site, project):
    page = site.get("/review")
    document = int(field(page, "document"))
    project.labels.answer(document, ["vehicles/boats"], by="Bob")
    late = answer(site, page, labels="animals/cats")
    assert late.status_code == 409
    said = text_of(late)
    assert "Someone was faster" in said
    assert "Bob said meanwhile: vehicles boats" in said
    assert "You said: animals cats" in said
    assert project.documents.get(document).labels == ("vehicles/boats",)
    answer(site, late, labels="animals/cats")
    assert project.documents.get(document).labels == ("animals/cats",)


def test_skip_and_undo(site, project):
    page = site.get("/review")
    document = int(field(page, "document"))
    page = answer(site, page, skip="1")
    assert int(field(page, "document")) != document
    assert "1 skipped in this session, 8 of 16 confirmed" in text_of(page)
    page = answer(site, page, labels="animals/cats")
    assert "1 answered and 1 skipped in this session, 9 of 16 confirmed" in text_of(page)
    site.post("/review/undo")
    page = site.post("/review/undo")
    assert "in this session" not in text_of(page)
    assert int(field(page, "document")) == document
    answer(site, page, labels="animals/dogs")
    page = site.post("/review/undo")
    assert project.documents.get(document).labels == ()
    assert int(field(page, "document")) == document
    assert "is as it was before." in text_of(page)
    assert "There is no answer of yours to undo." in text_of(site.post("/review/undo"))


def test_any_node_can_be_typed_inner_ones_too(site, project):
    page = site.get("/review")
    document = int(field(page, "document"))
    answer(site, page, typed="1", node="vehicles/cars")
    assert project.documents.get(document).labels == ("vehicles/cars",)
    page = answer(site, typed="1", node="unicorns")
    assert page.status_code == 422
    assert 'No node is called "unicorns"' in text_of(page)
    page = answer(site, typed="1", node="")
    assert "Choose a node, or skip the document." in text_of(page)


def test_marks_and_legend(site):
    page = site.get("/review")
    assert re.search(r'<mark class="level-\d( weak)?" title="for ', page.text)
    assert "Words that speak for" in text_of(page)


def test_bad_answers_change_nothing(site, project):
    n = len(project.labels.answers())
    for data in ({}, {"document": "x", "seen": "0"}, {"document": "99999", "seen": "0"},
                 {"document": "1" * 40, "seen": "0"}, {"document": "2", "seen": "-1"}):  # fmt: skip
        response = site.post("/review/answer", data={"labels": "animals/cats"} | data)
        assert 400 <= response.status_code < 500, data
    assert site.post("/review/answer", content=b"document=%ff").status_code == 400
    assert len(project.labels.answers()) == n


def test_several_labels(pets, pet_texts, tmp_path):
    labels = [label for label in LABELS for _ in range(4)]
    path = tmp_path / "several.leafwise"
    with (
        make_project(path, pets, pet_texts, labels, several=True) as project,
        running(project) as client,
    ):
        client.follow_redirects = True
        page = client.get("/review")
        assert 'type="checkbox" name="labels"' in page.text
        assert page.text.count(" checked") >= 1
        document = int(field(page, "document"))
        data = {name: field(page, name) for name in ("document", "seen", "asked", "token")}
        data |= {"labels": ["animals/cats", "vehicles/boats"]}
        assert client.post("/review/answer", data=data).status_code == 200
        assert project.documents.get(document).labels == ("animals/cats", "vehicles/boats")
        page = client.get(f"/documents/{document}")
        assert "animals/cats\nvehicles/boats</textarea>" in page.text


def test_all_done(site, project):
    for document in project.documents.page(state="unlabelled").documents:
        project.labels.answer(document.id, ["animals/cats"], by="Bob")
    assert "Every document is confirmed." in text_of(site.get("/review"))


# ---- documents ----------------------------------------------------------------------------------


def test_documents_are_searched_and_paged(site, project, pet_texts):
    add(project, [f"filler number {i} about sails" for i in range(60)], prefix="filler-")
    page = site.get("/documents?search=filler")
    assert page.text.count('class="begin"') == 50
    following = unescape(re.search(r'rel="next" href="([^"]*)"', page.text)[1])
    page = site.get(following)
    assert page.text.count('class="begin"') == 10
    assert 'rel="next"' not in page.text
    page = site.get("/documents?node=animals/cats&state=labelled")
    assert "doc-0" in page.text
    assert "No document is like that." in text_of(site.get("/documents?search=zebra"))
    page = site.get("/documents?node=unicorns&search=cat")
    assert page.status_code == 422
    assert 'No node is called "unicorns"' in text_of(page)
    assert 'value="unicorns"' in page.text


def test_document_has_its_history_and_another_label(site, project):
    page = site.get("/documents/1")
    assert "came with the file" in text_of(page)
    given = {"seen": field(page, "seen"), "token": field(page, "token"), "labels": "dogs"}
    assert "Saved: animals/dogs." in text_of(site.post("/documents/1/label", data=given))
    assert project.documents.get(1).labels == ("animals/dogs",)
    given["token"] = "another"
    page = site.post("/documents/1/label", data=given)
    assert "Ada has put this document on animals/dogs meanwhile." in text_of(page)
    page = site.get("/documents/1")
    given = {"seen": field(page, "seen"), "token": field(page, "token"), "labels": ""}
    assert "Saved: no label." in text_of(site.post("/documents/1/label", data=given))
    assert project.documents.get(1).labels == ()
    assert "label taken away" in text_of(site.get("/documents/1"))


def test_long_document_is_cut_on_its_page(site, project):
    add(project, ["cat " * 100_000], prefix="long-")
    id = project.documents.find("long-0").id
    page = site.get(f"/documents/{id}")
    assert "The first 50,000 of 400,000 characters." in text_of(page)
    assert len(page.content) < 100_000


# ---- progress, try, grow ------------------------------------------------------------------------


def test_progress_answers_whether_to_stop(site, project):
    said = text_of(site.get("/progress"))
    assert "Can I stop now? … Not yet: the model itself believes" in said
    page = site.post("/progress/target", data={"target": "75"})
    assert "The aim is 75 right documents of a hundred." in text_of(page)
    assert project.get("target") == 0.75
    assert site.post("/progress/target", data={"target": "175"}).status_code == 422
    assert project.get("target") == 0.75
    n = len(project.runs.all())
    page = site.post("/refit")
    assert len(project.runs.all()) == n + 1
    assert '<svg class="chart"' in page.text


def test_try_says_where_and_why(site, project):
    page = site.post("/try", data={"text": "My cat began to purr <b>loudly</b>"})
    said = text_of(page)
    assert "Why animals cats" in said
    assert re.search(r'<mark [^>]*title="for [^"]*">purr</mark>', page.text)
    assert "&lt;b&gt;loudly&lt;/b&gt;" in page.text
    assert project.documents.count() == 16
    assert site.post("/try", data={"text": "  "}).status_code == 422


def test_try_without_a_model(new_site):
    page = new_site.post("/try", data={"text": "a cat"})
    assert page.status_code == 409
    assert "This project has no model yet" in text_of(page)
    assert ">a cat</textarea>" in page.text


def test_tree_is_grown_renamed_and_accepted(new_site, empty, pet_texts):
    add(empty, [f"{text} {text}" for text in pet_texts])
    page = new_site.post("/grow", data={"leaves": "2"})
    draft = empty.drafts.open()[0]
    assert page.url.path == f"/grow/{draft.id}"
    assert draft.state == "ready", draft.message
    first = draft.taxonomy.paths[1]
    examples = draft.examples[draft.taxonomy.paths[int(draft.taxonomy.leaves[0])]]
    assert examples
    assert beginning(examples[0], 30).rstrip("…") in text_of(page)
    fields = {
        f"name:{path}": draft.taxonomy.names[i] for i, path in enumerate(draft.taxonomy.paths) if i
    }
    fields[f"name:{first}"] = "first of all"
    page = new_site.post(f"/grow/{draft.id}", data=fields | {"do": "rename"})
    assert "1 name changed." in text_of(page)
    page = new_site.post(f"/grow/{draft.id}", data={"do": "accept"})
    assert page.url.path == "/tree"
    assert "first of all" in empty.tree.taxonomy
    page = new_site.post(f"/grow/{draft.id}", data={"do": "accept"})
    assert f"Draft {draft.id} is accepted" in text_of(page)


def test_grown_tree_is_discarded(new_site, empty, pet_texts):
    add(empty, [f"{text} {text}" for text in pet_texts])
    before = empty.tree.taxonomy
    new_site.post("/grow", data={"leaves": "2"})
    draft = empty.drafts.open()[0]
    page = new_site.post(f"/grow/{draft.id}", data={"do": "discard"})
    assert "Discarded: nothing of it is in the tree." in text_of(page)
    assert empty.tree.taxonomy == before
    assert empty.drafts.open() == []
    assert new_site.post("/grow", data={"leaves": "1"}).status_code == 422
    page = new_site.post("/grow", data={"leaves": "2", "path": "unicorns"})
    assert 'No node is called "unicorns"' in text_of(page)


# ---- hostile texts ------------------------------------------------------------------------------


def test_hostile_texts_and_names_are_shown_harmless(tmp_path):
    name = HOSTILE.replace("/", "\\/")
    tree = Taxonomy.from_paths([f"{name}/cats", f"{name}/dogs", "=cmd()"])
    texts = [f"{HOSTILE} cats {i}" if i % 2 else f"{HOSTILE} dogs {i} \x00\u202e" for i in range(8)]
    labels = [f"{name}/{'cats' if i % 2 else 'dogs'}" for i in range(8)]
    path = tmp_path / "hostile.leafwise"
    with (
        make_project(path, tree, texts, labels, name=HOSTILE) as hostile,
        running(hostile, reviewer=HOSTILE) as client,
    ):
        client.follow_redirects = True
        branch = quote(tree.paths[1], safe="")
        typed = quote(HOSTILE)
        pages = [
            client.get(address)
            for address in (
                "/tree",
                "/review",
                "/documents",
                "/documents/2",
                "/grow",
                "/progress",
                "/try",
                "/start",
                f"/node?path={branch}",
                f"/tree/rows?q={typed}",
                f"/tree?q={typed}",
                f"/grow?path={branch}",
                f"/tree/edit?path={branch}",
                f"/documents?search={typed}&node={branch}",
            )
        ]
        pages.append(client.post("/try", data={"text": texts[0]}))
        pages.append(client.post("/reviewer", data={"name": HOSTILE}))
        pages.append(answer(client, labels=tree.paths[2]))
        pages.append(answer(client, typed="1", node=HOSTILE))
        for page in pages:
            assert page.status_code in (200, 422), page.url
            assert "<script>document" not in page.text, page.url
            assert "<img src=x" not in page.text, page.url
        found = client.get("/nodes.json?q=script").json()["nodes"]
        assert found[0]["name"].startswith("<script>")


# ---- parts --------------------------------------------------------------------------------------


def test_text_is_taken_apart_at_its_marks():
    marks = [Mark(0, 3, 2.0, 0), Mark(6, 9, -1.0, 1), Mark(11, 14, 0.1, 2)]
    view = view_of("cat a dog, any end", Explained("a/b", 0.5, marks, ["a/b", "a", ""]))
    assert "".join(part.text for part in view.parts) == "cat a dog, any end"
    marked = [(p.text, p.level, p.weak, p.title) for p in view.parts if p.level is not None]
    assert marked == [
        ("cat", 2, False, "for b"),
        ("dog", 1, True, "against a"),
        ("any", 0, True, "for any topic"),
    ]
    assert [(level.number, level.name) for level in view.legend] == [
        (0, "any topic"), (1, "a"), (2, "b"),
    ]  # fmt: skip
    assert not view.cut
    long = view_of("x" * (SHOWN + 1), None)
    assert long.cut
    assert (long.shown, long.length) == (SHOWN, SHOWN + 1)


def test_deep_levels_share_the_last_look():
    path = "/".join("abcdefgh")
    view = view_of("word", Explained(path, 0.5, [Mark(0, 4, 1.0, 0)], [path]))
    assert view.parts[0].level == 5


@pytest.mark.parametrize("n", [1, 2, 40])
def test_chart_is_sound_and_within_its_frame(n):
    points = [
        Point(10 * i, *np.sort([i / 50, 0.1 + i / 50, 0.2 + i / 50])[[1, 0, 2]]) for i in range(n)
    ]
    svg = str(curve(points, 0.9))
    root = ElementTree.fromstring(svg)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for shape in root.iter():
        for name, most in (("cx", width), ("cy", height), ("x1", width), ("y2", height)):
            assert 0 <= float(shape.attrib.get(name, 0)) <= most
    dots = root.findall("circle")
    assert len(dots) == n
    assert "aim 90%" in svg
    assert f"right after {points[-1].n_labels:,} labels" in root.attrib["aria-label"]
    assert str(curve([], 0.9)) == ""


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0%"), (0.001, "< 1%"), (0.5, "50%"), (0.994, "99%"), (0.999, "> 99%"), (1, "100%")],
)
def test_percent_promises_nothing(share, said):
    assert percent(share) == said


def test_beginning_of_a_text():
    assert beginning("a\n\n b  c") == "a b c"
    assert beginning("word " * 100, 20) == "word word word word…"
