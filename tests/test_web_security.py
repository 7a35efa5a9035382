"""Who may ask what, over real sockets: names, origins, tokens, sizes, and what runs nowhere."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
from web_server import make_project, running

from leafwise.exceptions import DependencyError, ProjectError
from leafwise.store import Project
from leafwise.web import serving
from leafwise.web.security import limit_of

TOKEN = "a-token-that-is-long"
EVIL = "<script>alert(1)</script>"
TEXT = {"text": "The kitten purred."}


@pytest.fixture(scope="module")
def project(tmp_path_factory, pets, pet_texts, pet_labels):
    folder = tmp_path_factory.mktemp("p")
    with make_project(folder / "pets.leafwise", pets, pet_texts, pet_labels) as project:
        yield project


@pytest.fixture(scope="module")
def client(project):
    with running(project) as client:
        yield client


@pytest.fixture(scope="module")
def locked(project):
    """A service that needs a token."""
    with running(project, token=TOKEN) as client:
        yield client


def refused(answer: httpx.Response, status: int, message: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["status"] == status
    assert message in answer.json()["error"]["message"]


def port_of(client: httpx.Client) -> int:
    return client.base_url.port


# ---- names and origins --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "localhost.",
        "[::2]",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/v1/health", "/v1/documents", "/static/leafwise.css"])
def test_foreign_names_are_refused(client, host, path):
    """A name of someone else that points here: DNS rebinding."""
    answer = client.get(path, headers={"Host": host, "Accept": "application/json"})
    name = host.rpartition(":")[0] if host.endswith(":80") else host
    refused(answer, 403, f'This service does not go by the name "{name}", only by 127.0.0.1, ')


def test_own_names_are_taken(client):
    for host in ("127.0.0.1", "LOCALHOST:9", f"localhost:{port_of(client)}", "[::1]:8000"):
        assert client.get("/v1/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://localhost"},
    ],
    ids=str,
)
def test_pages_of_others_change_nothing(client, project, headers):
    before = project.labels.last()
    given = {"labels": ["cats"]}
    answer = client.put("/v1/documents/doc-1/labels", json=given, headers=headers)
    refused(answer, 403, "This request comes from another site")
    form = client.post("/review", data={"labels": "cats"}, headers=headers)
    assert form.status_code == 403
    assert project.labels.last() == before


def test_own_pages_and_programs_may(client):
    own = {"Origin": str(client.base_url), "Sec-Fetch-Site": "same-origin"}
    assert client.post("/v1/suggest", json=TEXT, headers=own).status_code == 200
    assert client.post("/v1/suggest", json=TEXT).status_code == 200
    # What only reads may be led to from anywhere: no other page can look at the answer.
    answer = client.get("/v1/health", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_no_page_of_another_origin_is_ever_allowed_in_advance(client):
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "PUT"}
    answer = client.options("/v1/documents/doc-1/labels", headers=asked)
    refused(answer, 405, "OPTIONS is not possible")
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/v1/health", "/v1/nothing", "/nothing", "/static/leaf.svg"])
def test_every_answer_says_what_may_run(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    kept = "no-cache" if path.startswith("/static") else "no-store"
    assert headers["cache-control"] == kept


# ---- the token ----------------------------------------------------------------------------------


def test_nothing_is_open_without_the_token(locked):
    paths = locked.get("/v1/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
    for path, methods in paths.json()["paths"].items():
        for method in methods:
            if path != "/v1/health":
                answer = locked.request(method, path)
                refused(answer, 401, "This service needs its token")
                assert answer.headers["www-authenticate"] == "Bearer"
    for path in ("/v1/openapi.json", "/v1/docs", "/", "/tree", "/nothing"):
        assert locked.get(path).status_code == 401
    assert locked.get("/v1/health").status_code == 200
    assert locked.get("/static/leaf.svg").status_code == 200


@pytest.mark.parametrize(
    "given", ["Bearer wrong", f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer é"]
)
def test_a_wrong_token(locked, given):
    answer = locked.get("/v1/taxonomy", headers={"Authorization": given.encode()})
    refused(answer, 401, "The token is wrong.")


def test_the_right_token(locked):
    headers = {"Authorization": f"bearer {TOKEN}"}
    assert locked.get("/v1/taxonomy", headers=headers).status_code == 200
    described = locked.get("/v1/openapi.json", headers=headers).json()
    assert described["security"] == [{"token": []}]
    assert "Bearer $LEAFWISE_TOKEN" in locked.get("/v1/docs", headers=headers).text


def test_signing_in_by_the_form(locked):
    with httpx.Client(base_url=locked.base_url, timeout=60) as browser:
        page = browser.get("/tree?x=1", headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["location"]) == (303, "/login?next=/tree")
        form = browser.get("/login?next=/tree")
        assert 'value="/tree"' in form.text
        wrong = browser.post("/login", data={"token": "wrong", "next": "/tree"})
        assert wrong.status_code == 401
        assert "This is not the token." in wrong.text
        assert not browser.cookies
        right = browser.post("/login", data={"token": TOKEN, "next": "/tree"})
        assert (right.status_code, right.headers["location"]) == (303, "/tree")
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert browser.get("/v1/taxonomy").status_code == 200
        evil = {"Origin": "http://evil.example"}
        refused(browser.post("/v1/suggest", json=TEXT, headers=evil), 403, "another site")


@pytest.mark.parametrize("there", ["//evil.example", "/\\evil.example", "http://evil.example", "x"])
def test_signing_in_leads_nowhere_else(locked, there):
    right = httpx.post(f"{locked.base_url}/login", data={"token": TOKEN, "next": there})
    assert right.headers["location"] == "/"
    assert f'value="{there}"' not in locked.get("/login", params={"next": there}).text


def test_a_cookie_of_another_token_is_worth_nothing(locked, project):
    with running(project, token="another-token-that-is-long") as other:
        answer = other.post("/login", data={"token": "another-token-that-is-long"})
        assert answer.status_code == 303
        cookies = dict(other.cookies)
    name = "; ".join(f"{key}={value}" for key, value in cookies.items())
    refused(locked.get("/v1/taxonomy", headers={"Cookie": name}), 401, "needs its token")


# ---- sizes --------------------------------------------------------------------------------------


def test_the_limits_of_bodies():
    assert limit_of("/v1/suggest") == limit_of("/review") == 1 << 20
    large = ("/v1/suggest-batch", "/v1/learn", "/v1/documents", "/v1/projects/x/learn")
    for path in (*large, "/documents/upload", "/tree/new"):
        assert limit_of(path) == 32 << 20


@pytest.mark.parametrize("path", ["/v1/suggest", "/v1/learn", "/v1/documents", "/v1/nothing"])
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
def test_fifty_megabytes_are_refused(client, path, declared):
    piece = b"x" * 1_000_000

    def pieces():
        for _ in range(50):
            yield piece

    content = piece * 50 if declared else pieces()
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    mib = limit_of(path) >> 20
    if declared or path != "/v1/nothing":  # nobody reads what is sent to nowhere
        refused(answer, 413, f"The body is larger than the {mib} MiB that are taken here.")
    else:
        refused(answer, 404, "There is nothing at")
    assert client.get("/v1/health").status_code == 200


def test_a_body_without_end_is_cut_off(client):
    """A client that sends on and on is answered and left."""
    with socket.create_connection(("127.0.0.1", port_of(client)), timeout=30) as link:
        link.sendall(
            b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 500:
                link.sendall(chunk)
                sent += 1
        assert sent < 500
    assert client.get("/v1/health").status_code == 200


def test_a_length_that_is_not_true(client):
    with socket.create_connection(("127.0.0.1", port_of(client)), timeout=30) as link:
        link.sendall(
            b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
            b"Content-Type: application/json\r\n\r\n{}"
        )
    for length in (b"-1", b"1e9", b"9" * 30):
        with socket.create_connection(("127.0.0.1", port_of(client)), timeout=30) as link:
            link.sendall(
                b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                + length
                + b"\r\n\r\n{}"
            )
            assert link.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 413"))
    assert client.get("/v1/health").status_code == 200


def test_headers_without_end_are_refused(client):
    with socket.create_connection(("127.0.0.1", port_of(client)), timeout=30) as link:
        with contextlib.suppress(OSError):
            link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000)
        with contextlib.suppress(OSError):
            assert link.recv(100).startswith(b"HTTP/1.1 400")
    assert client.get("/v1/health").status_code == 200


# ---- what runs nowhere --------------------------------------------------------------------------


def test_a_script_in_a_document_stays_text(client):
    document = [{"id": EVIL, "text": f"{EVIL} the evil cat", "labels": ["cats"]}]
    assert client.post("/v1/documents", json=document).status_code == 200
    found = client.get("/v1/documents", params={"search": "evil"})
    assert found.headers["content-type"] == "application/json"
    assert found.json()["documents"][0]["text"] == f"{EVIL} the evil cat"
    answer = client.get(f"/v1/nodes/{EVIL}")
    assert answer.headers["content-type"] == "application/json"
    page = client.get(f"/{EVIL}", headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "&lt;script&gt;" in page.text
    assert EVIL not in page.text


def test_a_formula_in_a_document_is_neutralised(client):
    text = '=HYPERLINK("http://evil.example","cat")'
    client.post("/v1/documents", json=[{"id": "formula", "text": text}])
    exported = client.get("/v1/export").text
    assert "'=HYPERLINK" in exported
    assert not re.search(r'(^|,|")=HYPERLINK', exported, re.MULTILINE)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/%00",
        "/..%2f..%2fetc%2fpasswd",
        "/v1/export/..%2f..%2fetc%2fpasswd",
        "/v1/documents/..%2f..%2fetc%2fpasswd",
    ],
)
def test_no_path_reaches_the_disk(client, path):
    with socket.create_connection(("127.0.0.1", port_of(client)), timeout=30) as link:
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        link.sendall(request.encode())
        answer = b"".join(iter(lambda: link.recv(65536), b""))
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))
    assert b"root:" not in answer
    assert b"create_app" not in answer


def test_a_bug_is_answered_in_the_same_shape(project):
    def add(app):
        @app.get("/v1/bug")
        @app.get("/bug")
        def bug():
            raise RuntimeError("secret")

    with running(project, add) as client:
        answer = client.get("/v1/bug")
        refused(answer, 500, "This is a bug in leafwise; the log of the service says where.")
        page = client.get("/bug", headers={"Accept": "text/html"})
        assert page.status_code == 500
        assert "This is a bug in leafwise" in page.text
        for one in (answer, page):
            assert "secret" not in one.text
            assert "default-src 'none'" in one.headers["content-security-policy"]
        assert client.get("/v1/health").status_code == 200


def test_a_project_that_is_closed_under_the_service(tmp_path, pets):
    project = Project.create(tmp_path / "closed.leafwise", pets)
    with running(project) as client:
        project.close()
        refused(client.get("/v1/documents"), 409, "closed.leafwise is closed.")


# ---- serving ------------------------------------------------------------------------------------


def test_others_need_a_token(project, monkeypatch):
    monkeypatch.delenv("LEAFWISE_TOKEN", raising=False)
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(ProjectError, match="others, so the service needs a token") as error:
            serving.serve(project.path, host=host)
        assert "--token" in str(error.value)
        assert "LEAFWISE_TOKEN" in str(error.value)
    with pytest.raises(ProjectError, match="The token must be 12 or more letters"):
        serving.serve(project.path, token="short")


def test_a_port_that_is_taken(project):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            ProjectError, match=f"Cannot listen on 127.0.0.1, port {port}: .*--port"
        ):
            serving.serve(project.path, port=port)


def test_what_is_not_installed_is_named(project, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(DependencyError, match=r'needs uvicorn.*pip install "leafwise\[web\]"'):
        serving.serve(project.path)


def test_a_file_that_is_no_project(tmp_path):
    with pytest.raises(ProjectError, match=r"missing\.leafwise"):
        serving.serve(tmp_path / "missing.leafwise")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_service_begins_and_ends(tmp_path, pets, pet_texts, pet_labels, number):
    """A process of its own; another port where the usual one is taken; labels outlive its end."""
    file = tmp_path / "pets.leafwise"
    make_project(file, pets, pet_texts, pet_labels).close()
    code = "import sys; from leafwise.web.serving import serve; serve(sys.argv[1])"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment.pop("LEAFWISE_TOKEN", None)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", serving.PORT)))
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        try:
            line = process.stdout.readline()
            address = re.search(r'Serving "pets" at (http://127.0.0.1:\d+/)\. Ctrl-C', line)[1]
            assert not address.endswith(f":{serving.PORT}/")
            wait_for(address)
            given = {"labels": ["animals/cats"]}
            answer = httpx.put(f"{address}v1/documents/doc-1/labels", json=given, timeout=60)
            assert answer.status_code == 200
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert "Stopped. Every label is saved." in out
    assert "Traceback" not in err
    assert process.returncode == 0
    with Project(file) as project:
        assert project.documents.find("doc-1").labels == ("animals/cats",)
        assert project.check() == []


def wait_for(address: str) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}v1/health", timeout=60).status_code == 200:
                return
        time.sleep(0.05)
    raise AssertionError("The service did not start.")


def test_the_page_opens_when_it_is_there(project, monkeypatch):
    """The browser is led to an address that answers; here, to one that ends the service."""
    opened = threading.Event()
    servers = []
    monkeypatch.setattr(
        serving.webbrowser, "open", lambda page: (servers.append(page), opened.set())
    )
    said: list[str] = []

    def interrupt():
        assert opened.wait(30)
        wait_for(servers[0])
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    serving.serve(project.path, token=TOKEN, open_browser=True, say=said.append)
    thread.join()
    assert servers[0] in said[0]
    assert said[-1] == "Stopped. Every label is saved."
