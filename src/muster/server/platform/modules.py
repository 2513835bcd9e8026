"""Routes of modules and their categories."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from muster.platform.graphs.model import LONGEST_TEXT, Output, Variable
from muster.platform.modules.modules import (
    ModuleFilter,
    NewModule,
    create_category,
    delete_category,
    delete_module,
    edit_category,
    get_category,
    get_module,
    list_categories,
    list_modules,
    visible_module,
)
from muster.platform.modules.validation import ModuleInput, ModuleSource
from muster.platform.modules.versions import build_again, create_module, edit_module
from muster.platform.permissions import Actor
from muster.platform.records.common import Page
from muster.platform.records.modules import Category, Module
from muster.server.platform.rest import IfMatch, Paging, RequestBody, Search, etag
from muster.server.platform.security import Who
from muster.server.platform.services import Here

categories_router = APIRouter(prefix="/categories", tags=["categories"])


class CategoryBody(RequestBody):
    name: Annotated[str, Field(max_length=200)]
    description: Annotated[str, Field(max_length=10_000)] = ""


class CategoryChange(RequestBody):
    name: Annotated[str, Field(max_length=200)] = ""
    description: Annotated[str, Field(max_length=10_000)] = ""


@categories_router.get("", operation_id="list_categories")
async def all_categories(here: Here, who: Who, paging: Paging, q: Search = "") -> Page[Category]:
    """Sorted by name, created or modules."""
    return await here.database.read(lambda connection: list_categories(connection, who, paging, q))


@categories_router.post("", status_code=201, operation_id="create_category")
async def new_category(body: CategoryBody, here: Here, who: Who, response: Response) -> Category:
    made = await here.database.write(lambda connection: create_category(connection, who, body.name, body.description))
    return _answer(made, response)


@categories_router.get("/{category}", operation_id="get_category")
async def one_category(category: str, here: Here, who: Who, response: Response) -> Category:
    """By id or name."""
    return _answer(await here.database.read(lambda connection: get_category(connection, who, category)), response)


@categories_router.patch("/{category}", operation_id="edit_category")
async def change_category(
    category: str, body: CategoryChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> Category:
    found = await here.database.write(lambda connection: edit_category(connection, who, category, body.changes(), seen))
    return _answer(found, response)


@categories_router.delete("/{category}", status_code=204, operation_id="delete_category")
async def drop_category(category: str, here: Here, who: Who, seen: IfMatch) -> None:
    """Unless modules are in it."""
    await here.database.write(lambda connection: delete_category(connection, who, category, seen))


def _answer(category: Category, response: Response) -> Category:
    response.headers["ETag"] = etag(category.id, category.revision)
    return category


modules_router = APIRouter(prefix="/modules", tags=["modules"])

_Text = Annotated[str, Field(max_length=10_000)]
_Name = Annotated[str, Field(max_length=200)]
_Path = Annotated[str, Field(max_length=1_000)]


class VariableBody(RequestBody):
    name: _Name
    value: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""
    secret: bool = False


class InputBody(RequestBody):
    name: _Name
    description: _Text = ""


class OutputBody(RequestBody):
    name: _Name
    path: _Path
    type: Literal["text", "file"] = "text"
    description: _Text = ""


class _SourceBody(RequestBody):
    dockerfile: _Path = "Dockerfile"
    """Its path in the repository."""
    build_dir: _Path = "/"
    """The folder of the repository that is the build context."""
    readme_path: _Path = "README.md"
    env: Annotated[list[VariableBody], Field(default_factory=list)]
    inputs: Annotated[list[InputBody], Field(default_factory=list)]
    """The inputs of the module, passed as --name=value."""
    outputs: Annotated[list[OutputBody], Field(default_factory=list)]

    def written(self) -> dict[str, Any]:
        """The fields of the source that were set, as they are stored."""
        made = self.changes()
        if "env" in made:
            made["env"] = tuple(Variable(v.name, v.value, v.secret) for v in self.env)
        if "inputs" in made:
            made["inputs"] = tuple(ModuleInput(i.name, i.description) for i in self.inputs)
        if "outputs" in made:
            made["outputs"] = tuple(Output(o.name, o.path, o.type, o.description) for o in self.outputs)
        return made


class CreateModule(_SourceBody):
    name: _Name
    category: _Name
    """Its id or name."""
    description: _Text = ""
    team: _Name | None = None
    """The id or name of the team whose leader may review it; defaults to your team, if you are in only one."""
    git_url: Annotated[str, Field(max_length=2_000)]
    git_ref: _Name
    """A branch, tag or commit."""

    def module(self) -> NewModule:
        return NewModule(self.name, self.category, self.description, self.team)

    def source(self) -> ModuleSource:
        about = set(NewModule.__dataclass_fields__)
        return ModuleSource(**{name: value for name, value in self.written().items() if name not in about})


class ModuleChange(_SourceBody):
    category: _Name = ""
    description: _Text = ""
    team: _Name | None = None
    git_url: Annotated[str, Field(max_length=2_000)] = ""
    git_ref: _Name = ""


@modules_router.get("", operation_id="list_modules")
async def all_modules(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    category: Annotated[str, Query(description="The id or name of a category.")] = "",
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
    team: Annotated[str, Query(description="The id or name of a team.")] = "",
    state: Annotated[str, Query(description="The state of the newest version that you may see.")] = "",
    mine: Annotated[bool, Query(description="Only your own.")] = False,
    usable: Annotated[bool, Query(description="Only modules that you may use in a workflow.")] = False,
    published: Annotated[bool, Query(description="Only modules with a public version.")] = False,
) -> Page[Module]:
    """Lists modules by name, created, updated, owner, category or state; the last changed first."""
    only = ModuleFilter(q, category, owner, team, state, mine, usable, published)
    page = await here.database.read(lambda connection: list_modules(connection, who, paging, only))
    return page.map(lambda module: visible_module(module, who))


@modules_router.post("", status_code=201, operation_id="create_module")
async def new_module(body: CreateModule, here: Here, who: Who, response: Response) -> Module:
    """Creates a module with its first version and starts the build."""
    new, source, local = body.module(), body.source(), here.settings.modules.local_repositories
    module, _ = await here.database.write(lambda connection: create_module(connection, who, new, source, local))
    here.builds.look()
    return _module(module, who, response)


@modules_router.get("/{module}", operation_id="get_module")
async def one_module(module: str, here: Here, who: Who, response: Response) -> Module:
    """By id or name."""
    found = await here.database.read(lambda connection: get_module(connection, who, module))
    return _module(found, who, response)


@modules_router.patch("/{module}", operation_id="edit_module")
async def change_module(
    module: str, body: ModuleChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> Module:
    """Changes description, category and team at once. Any other change creates a new version and starts its build."""
    changes, local = body.written(), here.settings.modules.local_repositories
    found, _ = await here.database.write(
        lambda connection: edit_module(connection, who, module, changes, revision=seen, local=local)
    )
    here.builds.look()
    return _module(found, who, response)


@modules_router.post("/{module}/build", status_code=201, operation_id="build_module")
async def build_module(module: str, here: Here, who: Who, seen: IfMatch, response: Response) -> Module:
    """Creates a new version from the current state of the branch or tag."""
    found, _ = await here.database.write(lambda connection: build_again(connection, who, module, seen))
    here.builds.look()
    return _module(found, who, response)


@modules_router.delete("/{module}", status_code=204, operation_id="delete_module")
async def drop_module(module: str, here: Here, who: Who, seen: IfMatch) -> None:
    """Deletes a module with all its versions, unless a workflow uses one."""
    gone, images = await here.database.write(lambda connection: delete_module(connection, who, module, seen))
    await here.builds.forget(gone.id, images)


def _module(module: Module, who: Actor, response: Response) -> Module:
    response.headers["ETag"] = etag(module.id, module.revision)
    return visible_module(module, who)
