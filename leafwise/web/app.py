"""The application: REST, pages and files of ours, behind one guard."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.staticfiles import StaticFiles

from leafwise._version import __version__
from leafwise.review.workbench import Workbench
from leafwise.web import annif, api, errors, files, pages, reference, security, shapes

__all__ = ["create_app"]

_ABOUT = """Put texts where they belong in a tree of topics, and learn from labels.

Every error has the same shape: `{"error": {"status": 404, "message": "..."}}`, and where fields
of the request are wrong, `fields` says which. Bodies may have 1 MiB, those of `suggest-batch`,
`learn` and `documents` 32 MiB."""


class Service(FastAPI):
    """Describes bodies that are read by hand, and the token where there is one."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = self._describe()
        return self.openapi_schema

    def _describe(self) -> dict[str, Any]:
        described = get_openapi(
            title=self.title, version=self.version, description=_ABOUT, routes=self.routes
        )
        _, taken = models_json_schema(
            [(model, "validation") for model in shapes.TAKEN],
            ref_template="#/components/schemas/{model}",
        )
        components = described["components"]
        components["schemas"] = {**taken["$defs"], **components["schemas"]}
        if self.state.token_needed:
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            described["security"] = [{"token": []}]
            described["paths"]["/v1/health"]["get"]["security"] = []
        return described


def create_app(
    workbench: Workbench,
    *,
    token: str | None = None,
    hosts: Iterable[str] = security.HOSTS,
    reviewer: str = "reviewer",
) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    workbench : Workbench
        What is served. Whoever opened it closes it.
    token : str, optional
        What every request must bring. Without one, anybody who reaches the service may use it.
    hosts : iterable of str
        Names under which it may be addressed; all others are refused.
    reviewer : str
        In whose name labels are given on the pages.
    """
    app = Service(
        title="leafwise",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
    )
    app.state.workbench = workbench
    app.state.token_needed = token is not None
    routers = (api.router, files.router, annif.router)
    for router in routers:
        app.include_router(router)
    reference.add_reference(app)
    security.add_login(app, token)
    pages.add_pages(app, workbench, reviewer=reviewer)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    app.state.known_routes = [route for part in (*routers, app) for route in part.routes]
    errors.add_handlers(app)
    app.add_middleware(security.Guard, token=token, hosts=tuple(hosts))
    return app
