"""Pages and answers of the studio."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from stationary import words
from stationary.errors import StationaryError
from stationary.output.report import tables
from stationary.studio import answers, slow
from stationary.studio.answers import Asked, View
from stationary.studio.library import Library

_PAGES = {
    "answer": "Answer",
    "what-if": "What if",
    "data": "Data",
    "models": "Models",
    "checks": "Checks",
}
"""Pages of a plan, and what they are called."""


class Studio:
    """The pages of a library of plans, and what they ask for.

    Parameters
    ----------
    library : Library
        The plans.
    """

    def __init__(self, library: Library) -> None:
        self.library, self.slow = library, slow.Slow()
        self.quick = asyncio.Lock()  # two curves side by side would each take twice as long
        self.templates = Environment(
            loader=PackageLoader("stationary.studio"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals |= {"words": words, "tables": tables, "pages": _PAGES}
        self.templates.filters["sentence"] = words.sentence

    def app(self) -> Starlette:
        """Return the application, below the token."""
        routes = [
            Route("/", self.home),
            Route("/plans/{name}/{page}", self.page),
            Route("/plans/{name}/api/curves", self.curves),
            Route("/plans/{name}/api/bands", partial(self.ask, answers.bands)),
            Route("/plans/{name}/api/said", partial(self.ask, answers.said)),
            Mount("/static", StaticFiles(packages=[("stationary.studio", "static")])),
        ]
        return Starlette(
            routes=[Mount("/{token}", routes=routes)],
            exception_handlers={StationaryError: _complain, 404: _missing},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        self.slow.close()

    async def home(self, request: Request) -> Response:
        """Go to the newest plan, or to where one is made."""
        name = next(iter(self.library.places()), None)
        root = f"/{request.path_params['token']}"
        return RedirectResponse(f"{root}/new" if name is None else f"{root}/plans/{name}/answer")

    async def page(self, request: Request) -> Response:
        """Show a page of a plan."""
        page, name = request.path_params["page"], request.path_params["name"]
        if page not in _PAGES:
            return await _missing(request, None)
        view = await run_in_threadpool(self.library.view, name)
        data = {}
        if page in ("answer", "what-if"):
            asked = Asked.of(request.query_params.multi_items())
            async with self.quick:
                data = await run_in_threadpool(lambda: {**view.facts, **view.curves(asked)})
        return await run_in_threadpool(self.render, request, page, view=view, data=data)

    def render(self, request: Request, page: str, **given: Any) -> Response:
        """Fill a template."""
        text = self.templates.get_template(f"{page}.html.j2").render(
            root=f"/{request.path_params['token']}",
            page=page,
            name=request.path_params.get("name"),
            plans=list(self.library.places()),
            **{**given, "data": _finite(given.get("data", {}))},
        )
        return HTMLResponse(text)

    async def curves(self, request: Request) -> Response:
        """Answer at once, without intervals."""
        view, asked = self._view(request)
        async with self.quick:
            return Record(await run_in_threadpool(view.curves, asked))

    async def ask(self, function: Callable[..., Any], request: Request) -> Response:
        """Answer from the slow process."""
        view, asked = self._view(request)
        del view
        name = request.path_params["name"]
        key = f"{request.query_params.get('tab', '')} {function.__name__}"
        try:
            found = await self.slow.ask(self.library.place(name), key, function, asked)
        except (asyncio.CancelledError, CancelledError):
            return Record({"error": "a newer question took the place of this one"}, 409)
        return Record(found)

    def _view(self, request: Request) -> tuple[View, Asked]:
        view = self.library.view(request.path_params["name"])
        return view, Asked.of(request.query_params.multi_items())


class Record(JSONResponse):
    """JSON in which a number that is not finite is null."""

    def render(self, content: Any) -> bytes:
        """Return the text."""
        return super().render(_finite(content))


def _finite(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _finite(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_finite(value) for value in item]
    return None if isinstance(item, float) and not math.isfinite(item) else item


async def _complain(request: Request, error: Exception) -> Response:
    """Say what was wrong: as a sentence to a script, as a page to a person."""
    text = words.sentence(str(error))
    if "/api/" in request.url.path:
        return Record({"error": text}, 400)
    return HTMLResponse(f"<!DOCTYPE html><title>stationary</title><p>{escape(text)}</p>", 400)


async def _missing(request: Request, error: Any) -> Response:
    del request, error
    return HTMLResponse(
        "<!DOCTYPE html><title>stationary</title><p>There is no such page.</p>", 404
    )
