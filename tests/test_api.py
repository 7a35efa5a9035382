"""REST over real sockets: what it answers, what it refuses, and that nothing is lost."""

import csv
import io
import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from web_server import make_project, running

from leafwise.corpus import Batch
from leafwise.store import Project
from leafwise.taxonomy import Taxonomy

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def project(tmp_path_factory, pets, pet_texts, pet_labels):
    with make_project(
        tmp_path_factory.mktemp("p") / "pets.leafwise", pets, pet_texts, pet_labels
    ) as p:
        yield p


@pytest.fixture(scope="module")
def client(project):
    with running(project) as client:
        yield client


def refused(answer: httpx.Response, status: int, message: str) -> dict:
    """The one shape of all errors, and what it says."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert body["error"]["status"] == status
    assert message in body["error"]["message"]
    assert set(body["error"]) <= {"status", "message", "fields"}
    return body["error"]


# ---- suggest ------------------------------------------------------------------------------------


def test_suggest_takes_json_and_forms(client):
    given = {"text": "The kitten purred.", "limit": 2}
    by_json = client.post("/v1/suggest", json=given)
    by_form = client.post("/v1/suggest", data=given)
    assert by_json.status_code == by_form.status_code == 200
    assert by_json.json() == by_form.json()
    best, second = by_json.json()["results"]
    assert (best["path"], best["label"]) == ("animals/cats", "cats")
    assert best["score"] > second["score"]
    assert best["uri"] == f"{client.base_url}/v1/nodes/animals/cats"
    assert client.get(best["uri"]).json()["path"] == "animals/cats"


def test_a_threshold_leaves_out_the_rest(client):
    found = client.post("/v1/suggest", json={"text": "The kitten purred.", "threshold": 0.5})
    assert [one["path"] for one in found.json()["results"]] == ["animals/cats"]


def test_what_is_typed_in_a_form_comes_out_as_it_was(client):
    odd = "Ein Kätzchen & ein +Hund=100 % \U0001f408"
    same = client.post("/v1/suggest", json={"text": odd}).json()
    assert client.post("/v1/suggest", data={"text": odd}).json() == same


def test_a_form_may_have_utf_8_as_curl_sends_it(client):
    text = "Ein Kätzchen nach Köln"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/v1/suggest", content=f"text={text}".encode(), headers=form)
    assert answer.status_code == 200
    assert answer.json() == client.post("/v1/suggest", json={"text": text}).json()


def test_a_batch_is_answered_in_order(client):
    documents = [{"text": "A fast lap.", "id": "x"}, {"text": "The dog barked."}]
    first, second = client.post("/v1/suggest-batch", json={"documents": documents}).json()
    assert first["id"] == "x"
    assert "id" not in second
    assert first["results"][0]["path"] == "vehicles/cars/racing"
    assert second["results"][0]["path"] == "animals/dogs"
    assert client.post("/v1/suggest-batch", json={"documents": []}).json() == []


def test_without_a_model_there_is_nothing_to_suggest(tmp_path, pets):
    with Project.create(tmp_path / "new.leafwise", pets) as new, running(new) as client:
        refused(client.post("/v1/suggest", json={"text": "cat"}), 409, "no model yet")
        assert client.get("/v1/health").json() == {
            "status": "ok",
            "model": False,
            "documents": 0,
            "refit": "empty",
        }
        assert client.get("/v1/projects").json()["projects"][0]["is_trained"] is False


# ---- what is not taken --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "The body is not JSON: Expecting value (line 1, column 1)."),
        (b"{", 400, "The body is not JSON: Expecting property name"),
        (b'{"text": "\xff"}', 400, "The body is not UTF-8: byte 10 is wrong."),
        (b'{"text": "\\ud800"}', 400, "a string has half of a character"),
        (b'{"\\ud800": 1, "text": "x"}', 400, "a string has half of a character"),
        (b'{"text": "a", "text": "b"}', 400, 'an object has the name "text" more than once.'),
        (b'{"text": "a", "threshold": NaN}', 400, "NaN is not a number in JSON."),
        (b'{"text": "a", "threshold": -Infinity}', 400, "-Infinity is not a number in JSON."),
        (b'{"text": "a", "limit": ' + b"9" * 5000 + b"}", 400, "a number is too long."),
        (b"[" * 100_000 + b"]" * 100_000, 400, "it is nested too deeply."),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, 400, "it is nested too deeply."),
        (b"[]", 422, "body: expected an object"),
        (b"null", 422, "body: expected an object"),
        (b"{}", 422, "body.text: Field required"),
        (b'{"text": 1}', 422, "body.text: Input should be a valid string"),
        (b'{"text": "a", "limit": "3"}', 422, "body.limit: Input should be a valid integer"),
        (b'{"text": "a", "limit": true}', 422, "body.limit: Input should be a valid integer"),
        (b'{"text": "a", "limit": 0}', 422, "body.limit: Input should be greater than or equal"),
        (b'{"text": "a", "limit": 1001}', 422, "body.limit: Input should be less than or equal"),
        (b'{"text": "a", "limit": 1e308}', 422, "body.limit: Input should be a valid integer"),
        (b'{"text": "a", "threshold": 1e999}', 422, "body.threshold: Input should be a finite"),
        (b'{"text": "a", "threshold": 1.5}', 422, "body.threshold: Input should be less than"),
        (b'{"text": "a", "txet": "b"}', 422, "body.txet: Extra inputs are not permitted"),
    ],
    ids=range(23),
)
def test_bodies_that_are_refused(client, body, status, message):
    error = refused(client.post("/v1/suggest", content=body, headers=JSON), status, message)
    assert ("fields" in error) == (status == 422)


def test_wrong_fields_are_named(client):
    answer = client.post("/v1/suggest", json={"limit": 0, "threshold": 2})
    error = refused(answer, 422, "body.text: Field required (2 more below)")
    assert [one["field"] for one in error["fields"]] == [
        "body.text",
        "body.limit",
        "body.threshold",
    ]


def test_a_whole_number_may_have_a_point(client):
    answer = client.post("/v1/suggest", content=b'{"text": "cat", "limit": 1.0}', headers=JSON)
    assert len(answer.json()["results"]) == 1


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"limit=1", 422, "body.text: Field required"),
        (b"text=a&limit=x", 422, "body.limit: Input should be a valid integer"),
        (b"text=a&text=b", 400, 'The form has the field "text" more than once.'),
        (b"text=%ff", 400, "The form is not urlencoded UTF-8."),
        (b"text=\xe4", 400, "The form is not urlencoded UTF-8."),
        (b"&".join(b"f%d=1" % i for i in range(101)), 400, "The form has more than 100 fields."),
    ],
)
def test_forms_that_are_refused(client, body, status, message):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused(client.post("/v1/suggest", content=body, headers=form), status, message)


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("/v1/suggest", "text/plain", 'urlencoded, not "text/plain".'),
        ("/v1/suggest", None, 'urlencoded, not "".'),
        ("/v1/suggest", "multipart/form-data; boundary=x", 'not "multipart/form-data".'),
        ("/v1/suggest", "application/json; charset=utf-16", 'must be UTF-8, not "utf-16".'),
        ("/v1/learn", "application/x-www-form-urlencoded", "must be application/json, not"),
        ("/v1/documents", "text/csv", 'The body must be application/json, not "text/csv".'),
    ],
)
def test_types_that_are_refused(client, path, kind, message):
    headers = {} if kind is None else {"Content-Type": kind}
    refused(client.post(path, content=b'{"text": "a"}', headers=headers), 415, message)


def test_text_with_anything_in_it_is_sorted(client):
    for text in ("", " ", "\x00", "cat\x00dog", "\x1b[31m", "\u202e", "\uffff", "a" * 500_000):
        assert client.post("/v1/suggest", json={"text": text}).status_code == 200


def test_head_is_answered_as_get_without_a_body(client):
    for path in ("/v1/health", "/v1/taxonomy", "/tree"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path
        assert answer.headers["content-type"] == client.get(path).headers["content-type"]
    assert client.head("/v1/nothing").status_code == 404


def test_no_such_address_and_no_such_method(client):
    refused(client.get("/v1/nothing"), 404, 'There is nothing at "/v1/nothing". /v1/docs lists')
    answer = client.get("/v1/suggest")
    refused(answer, 405, 'GET is not possible at "/v1/suggest", only POST.')
    assert answer.headers["allow"] == "POST"
    assert client.delete("/v1/documents").headers["allow"] == "GET, POST"
    refused(client.get("/v1/documents/doc-1/labels"), 405, "only PUT.")


# ---- the tree -----------------------------------------------------------------------------------


def test_the_tree_with_its_counts(client, project, pets):
    answer = client.get("/v1/taxonomy").json()
    assert answer["name"] == "pets"
    assert answer["version"] == project.tree.version
    assert not answer["several"]

    def paths(node):
        return [node["path"], *(path for child in node["children"] for path in paths(child))]

    assert paths(answer["tree"]) == list(pets.paths)
    assert "documents" not in answer["tree"]
    counted = client.get("/v1/taxonomy", params={"counts": True}).json()["tree"]
    counts = counted["documents"]
    assert counts["confirmed"] + counts["predicted"] == project.documents.count()
    assert 0 < counts["score"] <= 1
    assert client.get("/v1/taxonomy?counts=perhaps").status_code == 422


def test_a_node(client):
    node = client.get("/v1/nodes/vehicles/cars").json()
    assert node["parent"]["path"] == "vehicles"
    assert [child["path"] for child in node["children"]] == ["vehicles/cars/racing"]
    assert node["own"] == {"confirmed": 0, "predicted": 0, "score": None}
    assert node["branch"]["confirmed"] >= 2
    cats = client.get("/v1/nodes/animals/cats").json()
    assert "cat" in [one["word"] for one in cats["words"]]
    assert cats["keywords"] == ["cat", "purr"]
    assert client.get("/v1/nodes/cats").json() == cats
    root = client.get("/v1/nodes/").json()
    assert root["path"] == "/"
    assert root["parent"] is None
    assert client.get("/v1/nodes/%2F").json() == root


@pytest.mark.parametrize(
    "path",
    ["nothing", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "a%00b", "%ff", "a" * 9000],
)
def test_nodes_that_are_not_there(client, path):
    refused(client.get(f"/v1/nodes/{path}"), 404, "No node is called")


def test_names_that_are_hard_to_write_in_an_address(tmp_path):
    names = ["TCP\\/IP", "..", "a?b#c%20", "<script>", "käse 🧀", "a\\\\b"]
    tree = Taxonomy.from_paths([f"top/{name}" for name in names])
    with Project.create(tmp_path / "odd.leafwise", tree) as odd, running(odd) as client:
        children = client.get("/v1/nodes/top").json()["children"]
        assert len(children) == len(names)
        for child in children:
            assert client.get(child["uri"]).json()["path"] == child["path"]


def test_a_tree_that_is_too_deep_to_nest(tmp_path):
    deep = Taxonomy.from_paths(["/".join("a" * 300)])
    with Project.create(tmp_path / "deep.leafwise", deep) as project, running(project) as client:
        refused(client.get("/v1/taxonomy"), 409, "300 levels deep, and more than 200 are too many")
        table = client.get("/v1/export/taxonomy?format=csv")
        assert "/".join("a" * 300) in table.text


# ---- documents ----------------------------------------------------------------------------------


def test_paging_through_all_documents(client, project):
    seen, after = [], None
    while True:
        params = {"limit": 3, **({"after": after} if after else {})}
        page = client.get("/v1/documents", params=params).json()
        seen += [one["id"] for one in page["documents"]]
        after = page["after"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == project.documents.count()


def test_documents_are_found(client):
    def ids(**params):
        return {one["id"] for one in client.get("/v1/documents", params=params).json()["documents"]}

    assert ids(search="harbour") == {"doc-8", "doc-9"}
    assert ids(search="doc-9") == {"doc-9"}
    assert ids(search="harbour", state="unlabelled") == {"doc-9"}
    assert "doc-9" in ids(node="vehicles", order="unsure")
    assert not ids(node="vehicles", branch=False)
    assert not ids(search='") OR 1=1 --')


def test_pages_that_are_not_there(client):
    refused(client.get("/v1/documents?node=nothing"), 404, 'No node is called "nothing"')
    refused(client.get("/v1/documents?after=x"), 409, "expected what the page before gave")
    refused(client.get("/v1/documents?state=x"), 422, "query.state: Input should be 'all', ")
    refused(client.get("/v1/documents?limit=0"), 422, "query.limit: Input should be greater than")
    refused(client.get("/v1/documents/nothing"), 404, 'There is no document "nothing".')


def test_added_documents_are_there_once(client):
    given = [
        {"text": "A cat on the roof.", "id": "folder/roof.txt", "labels": ["cats"]},
        {"text": "A boat on the lake."},
    ]
    assert client.post("/v1/documents", json=given).json() == {
        "new": 2, "same": 0, "changed": 0, "labels": 1,
    }  # fmt: skip
    assert client.post("/v1/documents", json=given).json() == {
        "new": 0, "same": 2, "changed": 0, "labels": 0,
    }  # fmt: skip
    one = client.get("/v1/documents/folder/roof.txt").json()
    assert one["labels"] == ["animals/cats"]
    assert [answer["by"] for answer in one["history"]] == ["api"]
    assert client.post("/v1/documents", json=[]).json()["new"] == 0


@pytest.mark.parametrize(
    ("document", "status", "message"),
    [
        ({"text": ""}, 422, "0.text: A text cannot be empty."),
        ({"text": " \n\t\u2003"}, 422, "0.text: A text cannot be empty."),
        ({"text": "a\x00b"}, 422, "0.text: A text cannot have a NUL character (U+0000)."),
        ({"text": "a", "id": ""}, 422, "0.id: String should have at least 1 character"),
        ({"text": "a", "id": "a\nb"}, 422, "0.id: String should match pattern"),
        ({"text": "a", "labels": "cats"}, 422, "0.labels: Input should be a valid list"),
        ({"text": "a", "labels": ["cats", "no"]}, 422, '0.labels.1: No node is called "no"'),
        ({"text": "a", "labels": ["cats", "dogs"]}, 422, "0.labels: Got 2 labels, and each"),
        ({"text": "a" * ((1 << 20) + 1)}, 422, "0.text: String should have at most 1048576"),
    ],
)
def test_documents_that_are_refused(client, project, document, status, message):
    before = project.documents.count()
    whole = [{"text": "Good.", "id": "good"}, document]
    refused(client.post("/v1/documents", json=whole), status, message.replace("0.", "1.", 1))
    assert project.documents.count() == before
    refused(client.get("/v1/documents/good"), 404, "There is no document")


# ---- labels -------------------------------------------------------------------------------------


def test_a_label_is_kept_with_its_history(client):
    before = client.get("/v1/documents/doc-1").json()
    assert before["labels"] == []
    assert before["prediction"]["path"]
    given = {"labels": [{"path": "animals/cats"}], "seen": before["version"]}
    after = client.put("/v1/documents/doc-1/labels", json=given).json()
    assert after["labels"] == ["animals/cats"]
    assert after["version"] > before["version"]
    assert after["history"][-1]["by"] == "api"
    assert after["history"][-1]["source"] == "api"
    again = client.put("/v1/documents/doc-1/labels", json=given)
    refused(again, 409, "api has put this document on animals/cats meanwhile.")
    gone = client.put("/v1/documents/doc-1/labels", json={"labels": []}).json()
    assert gone["labels"] == []
    assert len(gone["history"]) == len(after["history"]) + 1


def test_labels_that_are_refused(client):
    def put(labels, key="doc-3", **more):
        return client.put(f"/v1/documents/{key}/labels", json={"labels": labels, **more})

    why = 'No node is called "catz". Did you mean "animals/cats"?'
    error = refused(put(["catz"]), 422, f"body.labels.0: {why}")
    assert error["fields"] == [{"field": "body.labels.0", "message": why}]
    refused(put(["/"]), 422, "The root is no label: name a node below it.")
    refused(put(["cats", "dogs"]), 422, "Got 2 labels, and each document of this project has one.")
    refused(put(["cats"], key="nothing"), 404, 'There is no document "nothing".')
    refused(put([{"uri": "http://elsewhere/cats"}]), 422, "No node is called")
    refused(put(["cats"], seen=-1), 422, "body.seen: Input should be greater than or equal to 0")
    refused(put(None), 422, "body.labels: Input should be a valid list")
    refused(put([1]), 422, "body.labels.0")
    assert client.get("/v1/documents/doc-3").json()["labels"] == []


def test_a_label_by_the_uri_of_a_node(client):
    uri = client.get("/v1/nodes/animals/dogs").json()["uri"]
    given = {"labels": [{"uri": uri}]}
    after = client.put("/v1/documents/doc-5/labels", json=given).json()
    assert after["labels"] == ["animals/dogs"]


def test_what_is_learned_shows_at_once(client):
    strange = "Quibbling zorblax wumpuses everywhere."
    lessons = [
        {"text": f"{strange} {i}", "labels": ["vehicles/boats"], "id": f"z-{i}"} for i in range(3)
    ]
    assert client.post("/v1/learn", json=lessons).json() == {"learned": 3}
    assert client.get("/v1/documents/z-0").json()["labels"] == ["vehicles/boats"]
    assert client.post("/v1/learn", json=lessons).json() == {"learned": 3}
    assert len(client.get("/v1/documents/z-0").json()["history"]) == 1
    assert client.post("/v1/learn", json=[]).json() == {"learned": 0}


def test_lessons_are_learned_all_or_none(client):
    lessons = [
        {"text": "A good one.", "labels": ["cats"], "id": "lesson-1"},
        {"text": "A bad one.", "labels": ["unicorns"], "id": "lesson-2"},
    ]
    answer = client.post("/v1/learn", json=lessons)
    refused(answer, 422, '1.labels.0: No node is called "unicorns"')
    refused(client.get("/v1/documents/lesson-1"), 404, 'There is no document "lesson-1".')
    refused(client.post("/v1/learn", json=[{"text": "a", "labels": []}]), 422, "0.labels: List")


def test_several_labels_where_the_project_has_several(tmp_path, pets, pet_texts, pet_labels):
    file = tmp_path / "several.leafwise"
    with (
        make_project(file, pets, pet_texts, pet_labels, several=True) as project,
        running(project) as client,
    ):
        given = {"labels": ["cats", "boats", "animals/cats"]}
        after = client.put("/v1/documents/doc-1/labels", json=given).json()
        assert after["labels"] == ["animals/cats", "vehicles/boats"]


def test_two_at_once_lose_nothing(client, project):
    """Of many who answer what they saw at the same moment, one is heard; the others are told."""
    documents = [f"race-{i}" for i in range(6)]
    client.post("/v1/documents", json=[{"id": id, "text": f"Race {id}."} for id in documents])
    start = threading.Barrier(8)

    def put(label):
        with httpx.Client(base_url=client.base_url, timeout=60) as own:
            start.wait()
            return [
                own.put(f"/v1/documents/{id}/labels", json={"labels": [label], "seen": 0})
                for id in documents
            ]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(put, ["cats", "dogs"] * 4))
    for i, id in enumerate(documents):
        codes = sorted(own[i].status_code for own in answers)
        assert codes == [200] + [409] * 7
        heard = next(own[i].json() for own in answers if own[i].status_code == 200)
        now = client.get(f"/v1/documents/{id}").json()
        assert now["labels"] == heard["labels"]
        assert len(now["history"]) == 1
    assert project.check() == []


def test_the_same_lesson_from_many_is_one_document(client, project):
    lesson = [{"text": "The very same lesson about a dog.", "labels": ["dogs"], "id": "same"}]
    before = project.documents.count()

    def learn(_):
        return httpx.post(f"{client.base_url}/v1/learn", json=lesson, timeout=60).status_code

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(learn, range(12))) == {200}
    assert project.documents.count() == before + 1
    assert client.get("/v1/documents/same").json()["labels"] == ["animals/dogs"]
    assert project.check() == []


# ---- files --------------------------------------------------------------------------------------


def test_an_export_has_every_document(client, project):
    answer = client.get("/v1/export")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="pets-all.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == project.documents.count()
    assert rows[0]["label"] == "animals/cats"
    lines = client.get("/v1/export?what=labels&format=jsonl").text.splitlines()
    assert json.loads(lines[0])["id"] == "doc-0"
    assert client.get("/v1/export?format=parquet").content.startswith(b"PAR1")
    history = client.get("/v1/export?what=history")
    assert history.headers["content-type"].startswith("application/jsonl")
    said = [json.loads(line) for line in history.text.splitlines()]
    assert len(said) >= len(project.labels.answers())
    refused(client.get("/v1/export?what=history&format=csv"), 409, "written as JSONL, not as csv.")
    refused(client.get("/v1/export?format=exe"), 422, "query.format: Input should be 'csv', ")
    refused(client.get("/v1/export?what=../../etc/passwd"), 422, "query.what: Input should be")


def test_a_large_export_comes_in_pieces_and_whole(tmp_path, pets):
    text = "The cat sat on the mat. " * 1000
    with Project.create(tmp_path / "large.leafwise", pets) as project:
        ids = [str(i) for i in range(1000)]
        project.documents.add([Batch([text] * 1000, [()] * 1000, ids, list(range(1000)), {})])
        with running(project) as client:
            lines = client.get("/v1/export?format=jsonl").text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids


@pytest.mark.parametrize("format", ["yaml", "json", "csv", "tsv"])
def test_the_tree_can_be_read_back(client, pets, tmp_path, format):
    answer = client.get("/v1/export/taxonomy", params={"format": format})
    path = tmp_path / f"tree.{format}"
    path.write_bytes(answer.content)
    assert Taxonomy.load(path) == pets


def test_the_tree_as_skos(client, pets):
    turtle = client.get("/v1/export/taxonomy?format=turtle")
    assert turtle.headers["content-type"].startswith("text/turtle")
    assert turtle.text.count("skos:Concept ") == len(pets) - 1
    named = client.get("/v1/export/taxonomy?format=ttl")
    assert named.content == turtle.content
    assert named.headers["content-disposition"] == 'attachment; filename="pets-tree.ttl"'


# ---- Annif --------------------------------------------------------------------------------------


def test_a_client_of_annif_finds_its_way(client):
    assert set(client.get("/v1/").json()) == {"title", "version"}
    (project,) = client.get("/v1/projects").json()["projects"]
    assert project["project_id"] == "pets"
    assert project["is_trained"] is True
    base = f"/v1/projects/{project['project_id']}"
    assert client.get(base).json() == project
    form = {"text": "The puppy barked.", "limit": "1", "threshold": "0.1", "language": "en"}
    (best,) = client.post(f"{base}/suggest", data=form).json()["results"]
    assert set(best) == {"uri", "label", "notation", "score"}
    assert best["notation"] == "animals/dogs"
    documents = {"documents": [{"text": "A lap.", "document_id": "d"}, {"text": "A sail."}]}
    first, second = client.post(f"{base}/suggest-batch?limit=1", json=documents).json()
    assert first["document_id"] == "d"
    assert second["document_id"] is None
    assert second["results"][0]["label"] == "boats"
    lesson = [{"text": "A dog of Annif.", "subjects": [{"uri": best["uri"], "label": "dogs"}]}]
    answer = client.post(f"{base}/learn", json=lesson)
    assert (answer.status_code, answer.content) == (204, b"")
    (found,) = client.get("/v1/documents?search=Annif").json()["documents"]
    assert found["labels"] == ["animals/dogs"]
    lesson[0]["subjects"].append({"uri": "unicorns"})
    answer = client.post(f"{base}/learn", json=lesson)
    refused(answer, 422, '0.subjects.1.uri: No node is called "unicorns"')
    assert client.post(f"{base}/suggest", data={**form, "limit": "0"}).json() == {"results": []}
    refused(client.get("/v1/projects/other"), 404, 'no project "other" here, only "pets".')
    answer = client.post("/v1/projects/other/suggest", data=form)
    refused(answer, 404, 'There is no project "other" here')


# ---- the description ----------------------------------------------------------------------------


def test_every_operation_is_described_on_the_page(client):
    described = client.get("/v1/openapi.json").json()
    page = client.get("/v1/docs")
    assert page.status_code == 200
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in page.text
            assert operation["summary"]
            assert {"401", "403", "422", "500"} <= set(operation["responses"])
    assert "http-equiv" not in page.text
    assert "<script" not in page.text
    assert " style=" not in page.text
    assert f"{client.base_url}/v1/suggest" in page.text


def test_schemathesis_finds_nothing(client, tmp_path):
    """Requests of all kinds, from the description: each is answered as it says."""
    pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    # Whether a label is one of the tree, no description can say: these may refuse what it allows.
    paths = ["/v1/learn", "/v1/documents", "/v1/documents/{key}/labels",
             "/v1/projects/{project_id}/learn"]  # fmt: skip
    described = client.get("/v1/openapi.json").json()["paths"]
    assert set(paths) <= set(described)
    (tmp_path / "schemathesis.toml").write_text(
        "".join(
            f'[[operations]]\ninclude-path = "{path}"\n'
            f'include-method = "{"PUT" if path.endswith("labels") else "POST"}"\n'
            "checks.positive_data_acceptance.enabled = false\n"
            for path in paths
        )
    )
    options = "--seed 8 --max-examples 3 --phases coverage,fuzzing --no-color"
    ended = subprocess.run(
        [
            *(sys.executable, "-c", "from schemathesis.cli import schemathesis as st; st()"),
            *("run", f"{client.base_url}/v1/openapi.json", *options.split()),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    found = [line for line in ended.stdout.splitlines() if len(line) < 300]
    assert ended.returncode == 0, "\n".join(found)
    assert re.search(r"(\d{3,}) generated, \1 passed", ended.stdout)
    operations = sum(map(len, client.get("/v1/openapi.json").json()["paths"].values()))
    assert f"Tested: {operations}" in ended.stdout
