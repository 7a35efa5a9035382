"""How far the review has come, and a text to try."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response

from leafwise.exceptions import ProjectError
from leafwise.web.charts import curve
from leafwise.web.pages import Desk, GivenForm
from leafwise.web.pages_texts import view_of

STATES = {"running": "under way", "done": "done", "failed": "failed", "stopped": "stopped"}
_RUNS = 20
_CANDIDATES = 8


def add(app: FastAPI, desk: Desk) -> None:
    project, workbench = desk.project, desk.workbench

    @app.get("/progress", include_in_schema=False)
    def progress(request: Request) -> Response:
        now = workbench.progress()
        return desk.page(
            request,
            "progress.html",
            "Progress",
            info=project.info(),
            progress=now,
            curve=now.curve,
            chart=curve(now.curve, now.target),
            runs=project.runs.all()[::-1][:_RUNS],
            states=STATES,
        )

    @app.post("/progress/target", include_in_schema=False)
    def aim(form: GivenForm) -> Response:
        target = form.number("target", 1, 100)
        project.set("target", target / 100)
        return desk.lead("/progress", f"The aim is {target} right documents of a hundred.")

    @app.post("/refit", include_in_schema=False)
    def refit() -> Response:
        if not workbench.refit():
            return desk.lead("/progress", "A refit is under way already.", "warn")
        return desk.lead("/progress", "A refit has begun. You can go on reviewing meanwhile.")

    @app.get("/try", include_in_schema=False)
    def show(request: Request) -> Response:
        return desk.page(request, "try.html", "Try", text="")

    @app.post("/try", include_in_schema=False)
    def try_out(request: Request, form: GivenForm) -> Response:
        text = form.one("text").strip()
        if not text:
            problem = "Type or paste a text first."
            return desk.page(request, "try.html", "Try", text="", problem=problem, status=422)
        try:
            [found] = workbench.suggest([text], limit=_CANDIDATES)
            why = workbench.explain(text)
        except ProjectError as error:
            return desk.page(request, "try.html", "Try", text=text, problem=str(error), status=409)
        return desk.page(
            request, "try.html", "Try", text=text, candidates=found, view=view_of(text, why)
        )
