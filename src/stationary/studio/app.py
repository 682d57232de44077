"""Pages and answers of the studio."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from stationary import words
from stationary._support.plain import finite
from stationary.errors import InputError, StationaryError
from stationary.output.report import tables
from stationary.studio import answers, data, slow
from stationary.studio.answers import Asked, View
from stationary.studio.jobs import Jobs
from stationary.studio.library import Library
from stationary.studio.uploads import MOST, TOO_LARGE, Uploads
from stationary.studio.work import known_of

_PAGES = {
    "answer": "Answer",
    "what-if": "What if",
    "data": "Data",
    "models": "Models",
    "checks": "Checks",
}
"""Pages of a plan, and what they are called."""

_FILES: dict[str, tuple[Callable[..., str], str]] = {
    "report.html": (slow.report, "text/html"),
    "forecast.csv": (slow.table, "text/csv"),
    "rules.yml": (slow.rules, "application/yaml"),
}
"""Files of a plan, how each is made, and its kind."""

_LOAD = "sum(rate(http_requests_total[5m]))"  # the load in PromQL, where nobody says it

_SAID = (
    *("holds", "time_unit", "window", "lost_status"),
    *("servers", "capacity", "patience", "title", "load_unit"),
)
"""What a person says of a file, beside its columns and what must hold; no path is among it."""

_LONGEST = 2**20  # bytes of a question

_NOT_OURS = "The studio did not understand this request; reload the page."


class Studio:
    """The pages of a library of plans, and what they ask for.

    The ``source`` is a file to plan from, which need not be sent.
    """

    def __init__(self, library: Library, source: Path | None = None) -> None:
        self.library, self.slow, self.jobs = library, slow.Slow(), Jobs()
        self.scratch = tempfile.TemporaryDirectory(prefix="stationary-studio-")
        self.uploads = Uploads(Path(self.scratch.name))
        self.source = source
        self.offered = self._offer()
        self.quick = asyncio.Lock()  # two curves side by side would each take twice as long
        self.templates = Environment(
            loader=PackageLoader("stationary.studio"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.policies["json.dumps_kwargs"] = {}  # measures keep their order
        self.templates.globals |= {"words": words, "tables": tables, "pages": _PAGES}
        self.templates.filters |= {"sentence": words.sentence, "labelled": answers.labelled}

    def app(self) -> Starlette:
        """Return the application, below the token."""
        routes = [
            Route("/", self.home),
            Route("/plans/{name}/{page}", self.page),
            Route("/plans/{name}/api/curves", self.curves),
            Route("/plans/{name}/api/bands", partial(self.ask, answers.bands)),
            Route("/plans/{name}/api/said", partial(self.ask, answers.said)),
            Route("/plans/{name}/api/windows", partial(self.ask, data.windows)),
            Route("/plans/{name}/api/again", self.again, methods=["POST"]),
            Route("/plans/{name}/files/{file}", self.file),
            Route("/new", self.new),
            Route("/api/uploads", self.upload, methods=["POST"]),
            Route("/api/plans", self.start, methods=["POST"]),
            Route("/api/jobs/{job}", self.job),
            Route("/api/jobs/{job}/cancel", self.cancel, methods=["POST"]),
            Mount("/static", StaticFiles(packages=[("stationary.studio", "static")])),
        ]
        return Starlette(
            routes=[Mount("/{token}", routes=routes)],
            exception_handlers={StationaryError: self.complain, 404: self.missing},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        self.jobs.close()
        self.slow.close()
        self.scratch.cleanup()

    async def home(self, request: Request) -> Response:
        """Go to the newest plan, or to where one is made of the file that was named."""
        name = None if self.source else next(iter(self.library.places()), None)
        page = f"plans/{quote(name, safe='')}/answer" if name else "new"
        return RedirectResponse(f"/{request.path_params['token']}/{page}")

    async def page(self, request: Request) -> Response:
        """Show a page of a plan."""
        page = request.path_params["page"]
        if page not in _PAGES:
            raise HTTPException(404)
        view, asked = await self._view(request)
        recipe = view.plan.recipe
        given: dict[str, Any] = {}
        if page in ("answer", "what-if"):
            async with self.quick:
                given["data"] = await run_in_threadpool(
                    lambda: {**view.facts(page, asked), **view.curves(asked)}
                )
        elif page == "models":
            table = await run_in_threadpool(view.plan.ranking)
            given["ranking"] = table.to_dict("records")
        elif page == "data":
            notes = map(answers.labelled, filter(None, recipe.get("notes", "").split("\n")))
            given["data"] = {
                "unit": recipe.get("unit", ""),
                "notes": list(map(words.sentence, notes)),
            }
        return await run_in_threadpool(self.render, request, page, view=view, **given)

    def render(self, request: Request, page: str, status: int = 200, **given: Any) -> Response:
        """Fill a template."""
        slos = [("slo", text) for text in request.query_params.getlist("slo")]
        usual = {
            "root": f"/{request.path_params['token']}",
            "page": page,
            "name": request.path_params.get("name"),
            "plans": list(self.library.places()),
            "kept": f"?{urlencode(slos)}" if slos else "",  # what must hold goes along
        }
        shown = {**usual, **given, "data": finite(given.get("data", {}))}
        return HTMLResponse(self.templates.get_template(f"{page}.html.j2").render(shown), status)

    async def curves(self, request: Request) -> Response:
        """Answer at once, without intervals."""
        view, asked = await self._view(request)
        async with self.quick:
            return Record(await run_in_threadpool(view.curves, asked))

    async def ask(self, function: Callable[..., Any], request: Request) -> Response:
        """Answer from the slow process."""
        key = f"{request.query_params.get('tab', '')} {request.path_params['name']} {function}"
        found = await self._slowly(request, key, function)
        if found is None:
            return Record({"error": "a newer question took the place of this one"}, 409)
        return Record(found)

    async def file(self, request: Request) -> Response:
        """Make a file of a plan, to be saved by the browser."""
        file = request.path_params["file"]
        if file not in _FILES:
            raise HTTPException(404)
        function, kind = _FILES[file]
        load = [request.query_params.get("load_expr", _LOAD)] if file == "rules.yml" else []
        text = await self._slowly(request, None, function, *load)
        saved = {"Content-Disposition": f'attachment; filename="{file}"'}
        return Response(text, media_type=kind, headers=saved)

    async def _slowly(
        self, request: Request, key: str | None, function: Callable[..., Any], *more: Any
    ) -> Any:
        """Return what the slow process answers; None where a newer question took its place."""
        view, asked = await self._view(request)
        view.check(asked)
        place = self.library.place(request.path_params["name"])
        try:
            return await self.slow.ask(place, key, function, asked, *more)
        except (asyncio.CancelledError, CancelledError):
            return None

    async def new(self, request: Request) -> Response:
        """Show where a plan is made."""
        known = {"most": MOST, "too_large": TOO_LARGE, "job": self.jobs.running, **self.offered}
        return self.render(request, "new", data=known)

    def _offer(self) -> dict[str, Any]:
        """Return the first rows of the file that the studio was started with, or what is wrong."""
        if self.source is None:
            return {"known": {}, "error": ""}
        key = self.uploads.register(self.source, self.source.name)
        try:
            return {"known": self.uploads.preview(key), "error": ""}
        except InputError as error:
            return {"known": {}, "error": str(error)}

    async def upload(self, request: Request) -> Response:
        """Take a file, and return its first rows."""
        name = request.query_params.get("name", "upload")
        size = int(request.headers.get("content-length", 0))
        key = await self.uploads.receive(name, size, request.stream())
        return Record(await run_in_threadpool(self.uploads.preview, key))

    async def start(self, request: Request) -> Response:
        """Make a plan of an upload."""
        task = await _body(request)
        key = str(task.pop("upload", ""))
        file, name = self.uploads.get(key)
        self.jobs.check_free()
        columns, slo = task.get("columns", {}), task.get("slo", [])
        named = isinstance(columns, dict) and all(
            isinstance(each, str) for each in columns.values()
        )
        if not named or not isinstance(slo, list):
            raise InputError(_NOT_OURS)
        given: dict[str, Any] = {key: str(task[key]) for key in _SAID if task.get(key)}
        given |= {"columns": columns, "slo": list(map(str, slo))}
        known_of(given)  # what is wrong is said at once
        output = self.library.new(given.get("title") or name.partition(".")[0])
        job = self.jobs.start(
            {**given, "source": str(file), "name": name, "output": str(output)},
            partial(self.uploads.forget, key),
        )
        return Record({"job": job})

    async def again(self, request: Request) -> Response:
        """Make a plan again without some of its windows; the plan itself stays as it is."""
        task, name = await _body(request), request.path_params["name"]
        self.jobs.check_free()
        if not isinstance(task.get("without"), list):
            raise InputError(_NOT_OURS)
        plan, output = self.library.place(name), self.library.new(name)
        task = {"plan": str(plan), "without": task["without"], "output": str(output)}
        return Record({"job": self.jobs.start(task)})

    async def job(self, request: Request) -> Response:
        """Say how far a plan is."""
        return Record(self.jobs.get(request.path_params["job"]).state)

    async def cancel(self, request: Request) -> Response:
        """Stop a plan that is being made."""
        self.jobs.get(request.path_params["job"]).cancel()
        return Record({})

    async def complain(self, request: Request, error: Exception, status: int = 400) -> Response:
        """Say what was wrong: as a page to a person, as a sentence to a script."""
        text = str(error)
        if "text/html" not in request.headers.get("accept", ""):
            return Record({"error": text}, status)
        name = request.path_params.get("name")
        if name not in self.library.places():
            name = request.path_params["name"] = None
        asked = request.url.path if name and request.url.query else ""
        return self.render(request, "error", status, text=text, asked=asked)

    async def missing(self, request: Request, error: Any) -> Response:
        """Say that there is no such page."""
        del error
        return await self.complain(request, InputError("There is no such page."), 404)

    async def _view(self, request: Request) -> tuple[View, Asked]:
        view = await run_in_threadpool(self.library.view, request.path_params["name"])
        return view, Asked.of(request.query_params.multi_items())


async def _body(request: Request) -> dict[str, Any]:
    text = b""
    async for part in request.stream():
        text += part
        if len(text) > _LONGEST:
            raise InputError(_NOT_OURS)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(_NOT_OURS)
    return found


class Record(JSONResponse):
    """JSON in which a number that is not finite is null."""

    def render(self, content: Any) -> bytes:
        """Return the text."""
        return super().render(finite(content))
