"""The pages in a real browser, through the real server: by mouse, by keyboard, and under attack."""

import csv
import io
import os
import shutil
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from leafwise import Taxonomy
from leafwise.corpus import Batch
from leafwise.review.refitting import refit
from leafwise.store import Project

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
TREE = "animals\n  cats: cat, purr\n  dogs: dog, bark\nvehicles\n  boats: boat, sail\n"
WORDS = {
    "animals/cats": "cat purr kitten whisker sofa milk mouse",
    "animals/dogs": "dog bark puppy stick gate postman ball",
    "vehicles/boats": "boat sail harbour wind quay crew anchor",
}


def needed(missing: str):
    """Without a browser there is nothing to test, except where there must be one."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{missing}, and CI must run these tests", pytrace=False)
    pytest.skip(missing)


def rows(n: int = 10) -> list[tuple[str, str, str]]:
    """Made-up documents: id, text, and where it belongs."""
    made = []
    for i in range(n):
        for label, words in WORDS.items():
            own = words.split()
            text = f"The {own[i % 7]} and the {own[(i + 1) % 7]}, then {own[(i * 2 + 3) % 7]} {i}."
            made.append((f"{label.split('/')[1]}-{i}", text, label))
    return made


def truth(key: str) -> str:
    return next(label for label in WORDS if label.endswith(f"/{key.split('-')[0]}"))


@pytest.fixture(scope="module")
def chromium():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        needed("playwright is not installed")
    if not os.path.exists(CHROMIUM):
        needed(f"there is no browser at {CHROMIUM}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def serving(project, **options):
    """Serve a project on a free port, fits in the background as for a user."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs the extra leafwise[web]")
    from leafwise.review.workbench import Workbench
    from leafwise.web.app import create_app

    workbench = Workbench(project, **{"background": False} | options)
    app = create_app(workbench, reviewer="Ada")
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
        workbench.close()


@contextmanager
def looking(chromium, base, **options):
    """A page of a browser of its own. It fails the test where anything was blocked or thrown."""
    wrong = []
    context = chromium.new_context(base_url=base, **options)
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.wrong = wrong
    try:
        yield page
        assert wrong == []
    finally:
        context.close()


@pytest.fixture
def empty(tmp_path):
    with Project.create(tmp_path / "new.leafwise", name="Pets") as project:
        yield project


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "pets.leafwise"
    made = rows()
    from leafwise.web.pages_pasted import read_tree

    with Project.create(path, read_tree(TREE), name="Pets") as project:
        ids, texts = [row[0] for row in made], [row[1] for row in made]
        labels = [(label,) if i < 6 else () for i, (_, _, label) in enumerate(made)]
        project.documents.add([Batch(texts, labels, ids, list(range(1, len(made) + 1)), {})])
        assert refit(project).state == "done"
        yield project


@pytest.fixture
def project(fitted, tmp_path):
    fitted.backup(tmp_path / "copy.leafwise")
    with Project(tmp_path / "copy.leafwise") as project:
        yield project


def table(made) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows([("id", "text"), *(row[:2] for row in made)])
    return file.getvalue().encode()


def key_shown(page) -> str:
    return page.locator("#task-head").inner_text().removeprefix("Document").strip()


def wait_for_suggestion(page):
    """The first fit runs in a process of its own; the page brings its suggestions by itself."""
    page.wait_for_selector('[data-key="Enter"]', timeout=120_000)


def exported(page) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.get_by_role("link", name="Confirmed ones as CSV").click()
    with open(download.value.path(), newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


# ---- from nothing to an exported corpus ---------------------------------------------------------


def test_from_an_empty_project_to_an_exported_corpus_by_mouse(chromium, empty):
    made = rows(4)
    with serving(empty, background=True) as base, looking(chromium, base) as page:
        page.goto("/")
        assert page.url.endswith("/start")
        page.set_input_files(
            "#file", {"name": "pets.csv", "mimeType": "text/csv", "buffer": table(made)}
        )
        page.click("#upload")
        page.wait_for_selector("text=12 documents added.")
        page.fill("#tree-text", TREE)
        page.click("text=Take this tree")
        page.wait_for_selector("text=The tree has 5 nodes.")
        page.click("text=Review >> nth=0")
        wait_for_suggestion(page)
        seen = []
        for _ in made:
            key = key_shown(page)
            seen.append(key)
            wanted = page.locator(f'button[name="labels"][value="{truth(key)}"]')
            if wanted.count():
                wanted.click()
            else:
                page.fill("#any", truth(key))
                page.locator("#any-list >> li").first.click()
            page.wait_for_selector(f"#session:has-text('{len(seen)} answered')")
        assert sorted(seen) == sorted(row[0] for row in made)
        assert "Every document is confirmed." in page.inner_text("#task")
        page.click("text=Documents")
        found = exported(page)
    assert {row["id"]: row["label"] for row in found} == {key: label for key, _, label in made}
    assert empty.check() == []


def test_from_an_empty_project_to_an_exported_corpus_by_keyboard(chromium, empty):
    made = rows(3)
    with serving(empty, background=True) as base, looking(chromium, base) as page:

        def tab_to(selector: str) -> None:
            for _ in range(60):
                if page.evaluate("s => document.activeElement?.matches(s)", selector):
                    return
                page.keyboard.press("Tab")
            raise AssertionError(f"Tab does not lead to {selector}")

        page.goto("/start")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        tab_to("details:not([open]) > summary")
        page.keyboard.press("Enter")
        tab_to("#texts")
        page.keyboard.insert_text("\n".join(text for _, text, _ in made))
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=9 documents added.")
        tab_to("#tree-text")
        page.keyboard.insert_text(TREE)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=The tree has 5 nodes.")
        tab_to('a[href="/review"]')
        page.keyboard.press("Enter")
        wait_for_suggestion(page)
        by_text = {text: label for _, text, label in made}
        for n in range(1, len(made) + 1):
            wanted = by_text[page.inner_text(".document .text").strip()]
            button = page.locator(f'button[name="labels"][value="{wanted}"]')
            if button.count():
                page.keyboard.press(button.get_attribute("data-key"))
            else:
                page.keyboard.press("/")
                page.keyboard.type(wanted.split("/")[1])
                page.keyboard.press("Enter")
            page.wait_for_selector(f"#session:has-text('{n} answered in this session')")
        assert "Every document is confirmed." in page.inner_text("#task")
        tab_to("body, .skip")
        tab_to('.nav a[href="/documents"]')
        page.keyboard.press("Enter")
        page.wait_for_selector("#export")
        tab_to('a[aria-label="Confirmed ones as CSV"]')
        with page.expect_download() as download:
            page.keyboard.press("Enter")
        with open(download.value.path(), newline="", encoding="utf-8-sig") as file:
            found = list(csv.DictReader(file))
    assert {row["text"]: row["label"] for row in found} == by_text
    assert {answer.by for answer in empty.labels.answers()} == {"Ada"}
    assert empty.check() == []


def test_suggestions_come_even_where_no_look_saw_a_fit_run(chromium, empty):
    from leafwise.web.pages_pasted import read_tree

    tree, texts = read_tree(TREE), [text for _, text, _ in rows(3)]
    with serving(empty, background=True) as base, looking(chromium, base) as page:
        page.clock.install()
        page.clock.pause_at(time.time() + 60)  # the page does not look by itself
        empty.tree.replace(tree, by="Ada")
        empty.documents.add([Batch(texts, [()] * 9, list(map(str, range(9))), list(range(9)), {})])
        page.goto("/review")
        assert "Nothing is suggested yet" in page.inner_text("#task")
        deadline = time.monotonic() + 120
        while not page.request.get("/status.json").json()["has_model"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert page.locator("[data-waiting]").count() == 1
        page.clock.run_for(1000)
        page.wait_for_selector('[data-key="Enter"]')
        assert page.locator("[data-waiting]").count() == 0


# ---- review -------------------------------------------------------------------------------------


def test_keys_of_review(chromium, project):
    with serving(project) as base, looking(chromium, base) as page:
        page.goto("/review")
        first = key_shown(page)
        page.keyboard.press("s")
        page.wait_for_selector(f"#said:has-text('Skipped {first}')")
        assert key_shown(page) != first
        page.keyboard.press("u")
        page.wait_for_selector("#said:has-text('Undone')")
        assert key_shown(page) == first
        wanted = page.locator('[data-key="2"]').get_attribute("value")
        page.keyboard.press("2")
        page.wait_for_selector(f"#said:has-text('Saved: {wanted}')")
        assert project.documents.find(first).labels == (wanted,)
        second = key_shown(page)
        suggested = page.locator('[data-key="Enter"]').get_attribute("value")
        page.keyboard.press("Enter")
        page.wait_for_selector("#session:has-text('2 answered in this session')")
        assert project.documents.find(second).labels == (suggested,)
        third = key_shown(page)
        page.keyboard.press("/")
        page.keyboard.type("vehic")
        page.wait_for_selector("#any-list li")
        assert page.get_attribute("#any", "aria-expanded") == "true"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        page.wait_for_selector("#session:has-text('3 answered in this session')")
        assert project.documents.find(third).labels == ("vehicles",)
        page.keyboard.press("/")
        page.keyboard.type("s1?u")  # letters and not keys, in the box
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        assert page.locator("#keys").get_attribute("open") is not None
        assert page.evaluate("document.activeElement.id") == "task-head"
        assert "3 answered" in page.inner_text("#session")


@pytest.mark.parametrize("status", [None, 401, 503])
def test_answer_waits_for_the_server_and_is_not_lost(chromium, project, status):
    def fail(route):
        if status is None:
            route.abort()
        else:
            route.fulfill(status=status, body="{}")

    with serving(project) as base, looking(chromium, base) as page:
        page.route("**/review/answer", fail)  # a page that is open may slip past a new route
        page.goto("/review")
        key = key_shown(page)
        page.keyboard.press("Enter")
        page.wait_for_selector("#unsaved:has-text('is not saved yet')")
        assert key_shown(page) == key
        assert project.documents.find(key).labels == ()
        page.reload()
        page.wait_for_selector("#unsaved:has-text('is not saved yet')")
        page.unroute("**/review/answer")
        page.wait_for_selector("#unsaved", state="hidden")
        assert len(project.documents.find(key).labels) == 1
        assert len(project.labels.answers(source="review")) == 1
        assert page.evaluate("localStorage.length") == 0
        expected = ("ERR_FAILED", "401", "503")
        page.wrong[:] = [said for said in page.wrong if not any(e in said for e in expected)]


def test_answer_whose_receipt_was_lost_counts_once(chromium, project):
    lost = []

    def lose(route):
        """Let the answer through, but not what comes back, the first time."""
        if not lost:
            lost.append(route.fetch())
            route.abort()
        else:
            route.continue_()

    with serving(project) as base, looking(chromium, base) as page:
        page.route("**/review/answer", lose)
        page.goto("/review")
        key = key_shown(page)
        page.keyboard.press("Enter")
        page.wait_for_selector("#session:has-text('1 answered in this session')")
        assert lost[0].status == 200
        assert key_shown(page) != key
        assert len(project.labels.answers(source="review")) == 1
        page.wrong[:] = [said for said in page.wrong if "ERR_FAILED" not in said]


def test_conflict_can_be_overruled_or_left(chromium, project):
    with serving(project) as base, looking(chromium, base) as page:
        page.goto("/review")
        for n, (button, winner) in enumerate(
            [("Use mine", "animals/cats"), ("Keep theirs", "vehicles/boats")], start=1
        ):
            key = key_shown(page)
            document = project.documents.find(key).id
            project.labels.answer(document, ["vehicles/boats"], by="Bob")
            page.fill("#any", "animals/cats")
            page.keyboard.press("Enter")
            page.wait_for_selector("text=Bob said meanwhile")
            page.click(f"text={button}")
            page.wait_for_selector(".document")
            assert project.documents.find(key).labels == (winner,), n
        page.wrong[:] = [said for said in page.wrong if "409" not in said]


def test_enter_on_a_conflict_keeps_theirs(chromium, project):
    with serving(project) as base, looking(chromium, base) as page:
        page.goto("/review")
        key = key_shown(page)
        project.labels.answer(project.documents.find(key).id, ["vehicles/boats"], by="Bob")
        page.fill("#any", "animals/cats")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Bob said meanwhile")
        assert "Enter" in page.inner_text("a:has-text('Keep theirs and go on')")
        page.keyboard.press("Enter")
        page.wait_for_selector(".document")
        assert key_shown(page) != key
        assert project.documents.find(key).labels == ("vehicles/boats",)
        page.wrong[:] = [said for said in page.wrong if "409" not in said]


def test_answer_kept_over_a_closed_tab_is_saved_before_the_next_shows(chromium, project):
    with serving(project) as base, looking(chromium, base) as page:
        page.route("**/review/answer", lambda route: route.abort())
        page.goto("/review")
        key = key_shown(page)
        page.keyboard.press("Enter")
        page.wait_for_selector("#unsaved:has-text('is not saved yet')")
        again = page.context.new_page()
        page.close()
        again.goto("/review")
        again.wait_for_selector("#said:has-text('Saved')")
        assert key_shown(again) != key
        assert "1 answered" in again.inner_text("#session")
        assert len(project.documents.find(key).labels) == 1
        again.keyboard.press("Enter")
        again.wait_for_selector("#session:has-text('2 answered')")
        page.wrong[:] = [said for said in page.wrong if "ERR_FAILED" not in said]


def test_node_that_is_not_there_is_said_so(chromium, project):
    with serving(project) as base, looking(chromium, base) as page:
        page.goto("/review")
        page.keyboard.press("/")
        page.keyboard.press("Enter")
        told = page.locator(".combo [aria-live]")
        page.wait_for_selector(".combo .none:has-text('Type a name')")
        page.keyboard.type("zzzz")
        page.wait_for_selector(".combo .none:has-text('No node is called \"zzzz\".')")
        assert told.bounding_box()["height"] > 10
        page.keyboard.press("Enter")
        assert told.inner_text() == 'No node is called "zzzz".'
        page.fill("#any", "cat")
        page.wait_for_selector("#any-list li")
        assert page.locator(".combo .none").count() == 0
        assert project.labels.answers(source="review") == []


def test_what_was_saved_is_in_sight_and_the_address_is_free(chromium, project):
    for width in (1200, 800, 380):
        size = {"width": width, "height": 420}
        with serving(project) as base, looking(chromium, base, viewport=size) as page:
            id = project.documents.page(state="unlabelled").documents[0].id
            page.goto(f"/review?document={id}")
            page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
            page.keyboard.press("Enter")
            page.wait_for_selector("#said:has-text('Saved')")
            for name in ("#said", "#session"):
                seen = page.evaluate(
                    """(name) => {
                      const { left, top } = document.querySelector(name).getBoundingClientRect();
                      return document.elementFromPoint(left + 4, top + 4)?.matches(name);
                    }""",
                    name,
                )
                assert seen, (width, name)
            assert page.url == f"{base}/review"


def test_review_works_without_javascript(chromium, project):
    with (
        serving(project) as base,
        looking(chromium, base, java_script_enabled=False) as page,
    ):
        page.goto("/review")
        first = key_shown(page)
        page.click("text=Accept")
        assert "1 answered in this session" in page.inner_text("#session")
        assert len(project.documents.find(first).labels) == 1
        second = key_shown(page)
        page.fill("#any", "vehicles")
        page.press("#any", "Enter")  # takes what is typed, not what is suggested
        assert project.documents.find(second).labels == ("vehicles",)
        third = key_shown(page)
        page.click("button:has-text('Skip')")
        assert key_shown(page) != third
        page.click("button:has-text('Undo')")
        assert key_shown(page) == third
        page.goto("/node?path=animals/cats")
        page.click("summary:has-text('Rename')")
        page.fill("#rename-name", "felines")
        page.click("button:has-text('Rename')")
        assert "1 node renamed" in page.inner_text("#note")


@pytest.mark.parametrize("other", ["Grace", "Ada 2"])
def test_two_browsers_get_different_documents(chromium, project, other):
    with (
        serving(project) as base,
        looking(chromium, base) as one,
        looking(chromium, base) as two,
    ):
        for page in (one, two):
            page.goto("/review")
        if other == "Grace":
            two.click("a[title^='Who you are']")
            two.wait_for_selector("#name:focus")
            two.fill("#name", other)
            two.keyboard.press("Enter")
            two.wait_for_selector("text=kept under the name Grace")
            assert two.url.startswith(f"{base}/review")
        assert two.inner_text("a[title^='Who you are']") == other
        seen: dict[str, list[str]] = {"Ada": [], other: []}
        for n in range(1, 5):
            for name, page in (("Ada", one), (other, two)):
                seen[name].append(key_shown(page))
            assert seen["Ada"][-1] != seen[other][-1]
            for page in (one, two):
                page.keyboard.press("Enter")
            for page in (one, two):
                page.wait_for_selector(f"#session:has-text('{n} answered')")
        assert not set(seen["Ada"]) & set(seen[other])
    by = {answer.key: answer.by for answer in project.labels.answers(source="review")}
    assert by == {key: name for name, keys in seen.items() for key in keys}


def test_several_labels_by_keyboard(chromium, tmp_path):
    made = rows(4)
    from leafwise.web.pages_pasted import read_tree

    with Project.create(tmp_path / "several.leafwise", read_tree(TREE), several=True) as project:
        ids, texts = [row[0] for row in made], [row[1] for row in made]
        labels = [(label,) if i < 6 else () for i, (_, _, label) in enumerate(made)]
        project.documents.add([Batch(texts, labels, ids, list(range(1, len(made) + 1)), {})])
        refit(project)
        with serving(project) as base, looking(chromium, base) as page:
            page.goto("/review")
            key = key_shown(page)
            boxes = page.locator("#candidates input")
            before = [boxes.nth(i).is_checked() for i in range(boxes.count())]
            page.keyboard.press("2")
            assert boxes.nth(1).is_checked() != before[1]
            for i in range(boxes.count()):
                boxes.nth(i).set_checked(False)
            page.locator("#task-head").focus()
            page.keyboard.press("Enter")
            page.wait_for_selector("#unsaved:has-text('Check a node, or skip (s).')")
            assert key_shown(page) == key
            boxes.nth(1).set_checked(True)
            first = boxes.nth(1).get_attribute("value")
            page.keyboard.press("/")
            page.keyboard.type("vehicles")
            page.wait_for_selector("#any-list li")
            page.keyboard.press("Enter")
            page.wait_for_selector("#said:has-text('vehicles is checked')")
            page.keyboard.press("Enter")
            page.wait_for_selector("#session:has-text('1 answered')")
            assert project.documents.find(key).labels == tuple(sorted([first, "vehicles"]))


# ---- the tree -----------------------------------------------------------------------------------


def test_tree_is_searched_and_edited_in_place(chromium, project):
    with serving(project) as base, looking(chromium, base) as page:
        page.goto("/tree")
        page.fill("#q", "purr")
        page.wait_for_selector("#tree-found:has-text('1 found')", state="attached")
        assert "dogs" not in page.inner_text("#tree")
        page.fill("#q", "")
        page.wait_for_selector("#tree >> text=dogs")
        page.click('[data-edit="animals/cats"]')
        page.wait_for_selector("#rename-name:focus")
        page.fill("#rename-name", "felines")
        page.keyboard.press("Enter")
        page.wait_for_selector("#note:has-text('1 node renamed')")
        page.click('[data-edit="animals/dogs"]')
        page.click("dialog >> text=Merge into another node")
        page.fill("#merge-into", "felin")
        page.click("#merge-into-list >> li")
        page.click("dialog >> button:has-text('Merge')")
        page.wait_for_selector("#note:has-text('1 node merged')")
        assert project.tree.taxonomy.paths[1:3] == ("animals", "animals/felines")
        page.click("text=Undo the last change")
        page.wait_for_selector("#note:has-text('Undone: Merged')")
        assert "animals/dogs" in project.tree.taxonomy
        page.click('[data-edit="animals"]')
        page.wait_for_selector("dialog[open]")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog[open]", state="detached")


def test_large_tree_opens_branch_by_branch(chromium, tmp_path):
    tree = Taxonomy.from_paths([f"branch {i}/twig {i}-{j}" for i in range(100) for j in range(100)])
    with (
        Project.create(tmp_path / "big.leafwise", tree) as project,
        serving(project) as base,
        looking(chromium, base) as page,
    ):
        page.goto("/tree")
        assert page.locator("#tree li").count() < 300
        page.locator("details", has_text="branch 42").locator("summary .n").first.click()
        page.wait_for_selector("text=twig 42-99")
        page.reload()
        page.wait_for_selector("text=twig 42-99")  # what was open stays open


# ---- grow, try, progress ------------------------------------------------------------------------


def test_grow_look_rename_accept(chromium, empty):
    made = rows(8)
    batch = Batch(
        [f"{row[1]} {row[1]}" for row in made],
        [()] * len(made),
        [row[0] for row in made],
        list(range(1, len(made) + 1)),
        {},
    )
    empty.documents.add([batch])
    with serving(empty, background=True) as base, looking(chromium, base) as page:
        page.goto("/grow")
        page.fill("#leaves", "3")
        page.click("button:has-text('Grow')")
        page.wait_for_selector("text=Accept the tree", timeout=120_000)
        page.locator('input[name^="name:"]').first.fill("my own name")
        page.locator('input[name^="name:"]').first.press("Enter")  # keeps the name, no more
        page.wait_for_selector("#note:has-text('1 name changed.')")
        assert len(empty.tree.taxonomy) == 1
        page.click("text=Accept the tree")
        page.wait_for_selector("#note:has-text('added')")
    assert "my own name" in empty.tree.taxonomy


def test_try_and_progress(chromium, project):
    with serving(project) as base, looking(chromium, base) as page:
        page.goto("/try")
        page.fill("#text", "the kitten began to purr on the sofa")
        page.click("text=Where does it go?")
        assert "cats" in page.inner_text("#why")
        assert page.locator("mark").count() >= 2
        page.goto("/progress")
        assert page.inner_text("#answer").startswith("Not yet")
        assert page.locator("svg.chart polyline").count() == 1
        page.fill("#target", "80")
        page.click("button:has-text('Set')")
        page.wait_for_selector("#note:has-text('The aim is 80')")
        assert project.get("target") == 0.8


# ---- looks and attacks --------------------------------------------------------------------------

PAGES = ["/start", "/tree", "/review", "/documents", "/documents/1", "/progress", "/grow", "/try",
         "/reviewer", "/node?path=animals", "/node?path=animals/cats", "/v1/docs"]  # fmt: skip


def test_phone_has_no_sideways_scroll(chromium, project):
    long = "W" * 300
    project.documents.add([Batch([f"{long} cat {long}"], [()], [long], [1], {})])
    size = {"width": 360, "height": 740}
    with serving(project) as base, looking(chromium, base, viewport=size) as page:
        id = project.documents.find(long).id
        for address in [*PAGES, f"/documents/{id}", f"/review?document={id}"]:
            page.goto(address)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, (address, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(chromium, project, scheme):
    """Every pair of text and ground has the contrast that WCAG AA asks for."""
    with serving(project) as base, looking(chromium, base, color_scheme=scheme) as page:
        for address in PAGES:
            page.goto(address)
            poor = page.evaluate(CONTRAST)
            assert poor == [], address
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(int(part) for part in ground[4:-1].split(",")) > 384
        assert light == (scheme == "light")


CONTRAST = """() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const shine = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("[disabled], .unseen, .skip, noscript, svg")) continue;
    let ground = element;
    while (ground && (parse(getComputedStyle(ground).backgroundColor)[3] ?? 1) < 1) {
      ground = ground.parentElement;
    }
    const on = shine(parse(getComputedStyle(ground || document.body).backgroundColor));
    const ink = shine(parse(getComputedStyle(element).color));
    const ratio = (Math.max(on, ink) + 0.05) / (Math.min(on, ink) + 0.05);
    if (ratio < 4.5) poor.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
}"""


def test_controls_have_names_and_pages_have_landmarks(chromium, project):
    with serving(project) as base, looking(chromium, base) as page:
        for address in PAGES[:-1]:
            page.goto(address)
            assert page.get_by_role("main").count() == 1, address
            assert page.get_by_role("navigation", name="Pages").count() == 1
            assert page.get_by_role("banner").count() == 1
            unnamed = page.evaluate(
                """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea,"
                   + "button, a, [role=img]")].filter((e) => e.checkVisibility()
                   && !(e.labels?.length || e.getAttribute("aria-label") !== null
                   || e.innerText?.trim())).map((e) => e.outerHTML)"""
            )
            assert unnamed == [], address


def test_hostile_documents_and_names_run_nothing(chromium, tmp_path):
    name = HOSTILE.replace("/", "\\/")
    tree = Taxonomy.from_paths([f"{name}/cats", f"{name}/dogs"])
    texts = [f"{HOSTILE} cats {i}" if i % 2 else f"{HOSTILE} dogs {i}" for i in range(8)]
    ids = [f"{HOSTILE}{i}" for i in range(8)]
    with Project.create(tmp_path / "hostile.leafwise", tree, name=HOSTILE) as project:
        project.documents.add([Batch(texts, [()] * 8, ids, list(range(1, 9)), {})])
        refit(project)
        with serving(project) as base, looking(chromium, base) as page:
            page.goto("/reviewer")
            page.fill("#name", HOSTILE[:60])
            page.click("text=Keep it")
            for address in ("/tree", "/documents", "/documents/1", "/progress", "/grow", "/start"):
                page.goto(address)
                assert page.title() != "owned", address
            page.goto("/tree")
            page.fill("#q", "script")
            page.wait_for_selector("#tree-found:has-text('3 found')", state="attached")
            page.locator("[data-edit]").nth(1).click()
            page.wait_for_selector("dialog[open]")
            page.goto("/review")
            page.keyboard.press("/")
            page.keyboard.type("script")
            page.wait_for_selector("#any-list li")
            page.keyboard.press("Enter")
            page.wait_for_selector("#session:has-text('1 answered')")
            page.goto("/try")
            page.fill("#text", HOSTILE + " cats")
            page.click("text=Where does it go?")
            page.wait_for_selector("#why")
            assert page.title() != "owned"
            assert page.locator('img[src="x"]').count() == 0


def test_policy_blocks_a_script_that_gets_in(chromium, project):
    """The second lock: even a script in the page itself is not run."""
    with serving(project) as base, looking(chromium, base) as page:
        page.goto("/tree")
        page.evaluate(
            """() => { const s = document.createElement("script");
                 s.textContent = "document.title = 'owned'"; document.body.append(s); }"""
        )
        assert page.title() != "owned"
        assert len(page.wrong) == 1
        assert "Content Security Policy" in page.wrong.pop()
