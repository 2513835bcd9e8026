"""`muster get`: prints objects as tables, in full or through a template; with -w, again after every change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from muster.cli.errors import CommandError, CommandExit, format_api_error
from muster.cli.formats import (
    Format,
    ObjectTable,
    TableOptions,
    build_table,
    custom_column_values,
    format_headers,
    format_objects,
    format_row,
    parse_custom_columns,
    parse_format,
    sort_by_path,
)
from muster.cli.output import TableWriter, echo, warn
from muster.cli.selection import Selection, format_nothing_found, namespace_for, select_objects
from muster.cli.session import AllNamespaces, FieldSelector, Files, LabelSelector, Session, Target, on_cluster
from muster.cli.workflow_objects import check_type_exists, find_single_workflow, is_single_name
from muster.kube.errors import ApiError, Gone, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, name_of, version_of


@on_cluster
async def get(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="(TYPE[,TYPE...] [NAME...] | TYPE/NAME...)")] = None,
    filename: Files = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="Output format: wide, name, yaml, json, jsonpath=... or custom-columns=..."
        ),
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running and print every change.")] = False,
    watch_only: Annotated[
        bool, typer.Option("--watch-only", help="Print only changes, not the current state.")
    ] = False,
    selector: LabelSelector = "",
    field_selector: FieldSelector = "",
    all_namespaces: AllNamespaces = False,
    sort_by: Annotated[str, typer.Option("--sort-by", help="Sort by a JSONPath, as in .metadata.name.")] = "",
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Add a column with all labels.")] = False,
    label_columns: Annotated[
        list[str] | None, typer.Option("--label-columns", "-L", help="Add a column for this label.")
    ] = None,
    show_kind: Annotated[bool, typer.Option("--show-kind", help="Print the type before each name.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print headers.")] = False,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Do not fail if an object does not exist.")
    ] = False,
    show_managed_fields: Annotated[
        bool, typer.Option("--show-managed-fields", help="Include managed fields in yaml and json output.")
    ] = False,
) -> None:
    """List objects, or print them in full; a workflow is shown as a tree."""
    format = parse_format(output)
    options = TableOptions(
        wide=format.kind == "wide",
        namespaces=all_namespaces,
        labels=show_labels,
        label_columns=tuple(column for part in label_columns or () for column in part.split(",")),
        titles=show_kind,
    )
    if not filename and is_single_name(words or ()):
        workflow = await _find_workflow(session, words or ())
        if workflow is not None and format.kind == "":
            await _show_workflow(session, workflow, watch)
            return
        words = words if workflow is None else [f"workflow/{name_of(workflow)}"]
    query = _Query(session, selector, field_selector, all_namespaces)
    if watch or watch_only:
        target = _require_single_target(await session.targets(words or ()))
        await _Watch(query, target, format, options, headers=not no_headers, managed=show_managed_fields).run(
            changes_only=watch_only
        )
        return
    if format.is_table and not filename:
        targets = await session.targets(words or ())
        namespaced = any(target.kind.namespaced for target in targets)
        errors, any_shown = await _tables(query, targets, options, sort_by, headers=not no_headers)
    else:
        found = await query.select(words or (), filename or ())
        if sort_by:
            found.objects = sort_by_path(sort_by, found.objects)
        errors, any_shown, namespaced = found.errors, bool(found.objects), found.namespaced
        _print(found, format, options, headers=not no_headers, managed=show_managed_fields)
    failed = [error for error in errors if not (ignore_not_found and isinstance(error, NotFound))]
    for error in failed:
        warn(format_api_error(error))
    if failed:
        raise CommandExit(1)
    if not any_shown and format.kind in ("", "wide", "custom-columns") and not ignore_not_found:
        warn(format_nothing_found(session.namespace if namespaced and not query.everywhere else ""))


async def _find_workflow(session: Session, words: Sequence[str]) -> Object | None:
    """Returns the workflow if the only argument is its name."""
    workflow = await find_single_workflow(session, words)
    if workflow is None:
        await check_type_exists(session, words[0])
    return workflow


async def _show_workflow(session: Session, workflow: Object, watch: bool) -> None:
    from muster.cli.workflow_tree import print_workflow, watch_until_finished  # rarely needed

    if watch:
        await watch_until_finished(session, workflow)
    else:
        print_workflow(workflow)


class _Query:
    """The objects that the command selects."""

    def __init__(self, session: Session, labels: str, fields: str, all_namespaces: bool) -> None:
        self.session = session
        self.labels = labels
        self.fields = fields
        self.everywhere = all_namespaces

    def namespace(self, kind: Kind) -> str:
        return namespace_for(kind, "" if self.everywhere else self.session.namespace)

    async def select(self, words: Sequence[str], files: Sequence[str]) -> Selection:
        return await select_objects(
            self.session,
            words,
            files=files,
            labels=self.labels,
            fields=self.fields,
            all_namespaces=self.everywhere,
        )

    async def table(self, kind: Kind, name: str = "", *, include: str = "Metadata") -> ObjectTable:
        """Returns the server's table, or builds one if the server has none."""
        if self.session.remote is None:
            raise CommandError("tables are only available from a server")
        answer = await self.session.remote.table(
            kind, self.namespace(kind), name=name, labels=self.labels, fields=self.fields, include=include
        )
        return build_table(kind, answer, datetime.now(UTC))


async def _tables(
    query: _Query, targets: Sequence[Target], options: TableOptions, sort_by: str, *, headers: bool
) -> tuple[list[ApiError], bool]:
    named = any(target.names for target in targets)
    if named and (query.labels or query.fields):
        raise CommandError("a selector cannot be combined with names; remove one of them")
    if named and query.everywhere:
        raise CommandError(
            "an object cannot be requested by name across all namespaces; use -n NAMESPACE instead of -A"
        )
    if len({id(target.kind) for target in targets}) > 1:
        options = options._replace(titles=True)
    errors: list[ApiError] = []
    shown = False
    for target in targets:
        try:
            table = await _table(query, target, errors, include="Object" if sort_by else "Metadata")
        except ApiError as error:
            errors.append(error)
            continue
        if not table.rows:
            continue
        if sort_by:
            table = table.sorted_by(sort_by)
        if shown:
            echo()
        writer = TableWriter(format_headers(table, options), show_headers=headers)
        echo("\n".join(writer.lines(format_row(table, row, options) for row in table.rows)))
        shown = True
    return errors, shown


async def _table(query: _Query, target: Target, errors: list[ApiError], *, include: str) -> ObjectTable:
    if not target.names:
        return await query.table(target.kind, include=include)
    table = ObjectTable(target.kind, (), [])
    for name in target.names:
        try:
            one = await query.table(target.kind, name, include=include)
        except NotFound as error:
            errors.append(error)
            continue
        table = one._replace(rows=[*table.rows, *one.rows])
    return table


def _print(found: Selection, format: Format, options: TableOptions, *, headers: bool, managed: bool) -> None:
    if not found.objects and not (format.kind in ("yaml", "json") and not found.by_name):
        return
    if format.kind == "custom-columns":
        columns = parse_custom_columns(format.template)
        writer = TableWriter([header for header, _ in columns], show_headers=headers)
        echo("\n".join(writer.lines(custom_column_values(columns, obj) for _, obj in found.objects)))
    elif format.is_table:
        by_kind: dict[int, tuple[Kind, list[Object]]] = {}
        for kind, obj in found.objects:
            by_kind.setdefault(id(kind), (kind, []))[1].append(obj)
        if len(by_kind) > 1:
            options = options._replace(titles=True)
        for number, (kind, objects) in enumerate(by_kind.values()):
            if number:
                echo()
            table = build_table(kind, {"items": objects}, datetime.now(UTC))
            writer = TableWriter(format_headers(table, options), show_headers=headers)
            echo("\n".join(writer.lines(format_row(table, row, options) for row in table.rows)))
    else:
        single = found.by_name and len(found.objects) == 1 and not found.errors
        text = format_objects(format, found.objects, single=single, managed_fields=managed)
        echo(text.removesuffix("\n")) if format.kind != "jsonpath" else echo(text)


def _require_single_target(targets: Sequence[Target]) -> Target:
    if len(targets) != 1 or len(targets[0].names) > 1:
        raise CommandError("error: only one type or one object can be watched at a time")
    return targets[0]


class _Watch:
    def __init__(
        self, query: _Query, target: Target, format: Format, options: TableOptions, *, headers: bool, managed: bool
    ) -> None:
        self._query = query
        self._kind = target.kind
        self._name = target.names[0] if target.names else ""
        self._format = format
        self._options = options
        self._headers = headers
        self._managed = managed
        self._table: ObjectTable | None = None
        self._writer: TableWriter | None = None

    async def run(self, *, changes_only: bool) -> None:
        if not self._format.is_table:
            await self._objects(changes_only)
        elif self._query.session.remote is not None:
            await self._rows(changes_only)

    async def _rows(self, changes_only: bool) -> None:
        remote = self._query.session.remote
        assert remote is not None
        fields = self._fields()
        while True:
            answer = await remote.table(
                self._kind, self._query.namespace(self._kind), labels=self._query.labels, fields=fields
            )
            if not changes_only:
                self._show(build_table(self._kind, answer, datetime.now(UTC)))
            changes_only = True
            version = version_of(answer)
            try:
                while True:
                    async for event in remote.watch_table(
                        self._kind,
                        self._query.namespace(self._kind),
                        labels=self._query.labels,
                        fields=fields,
                        resource_version=version,
                    ):
                        if event.type == "BOOKMARK":
                            continue
                        table = build_table(self._kind, event.object, datetime.now(UTC), self._table)
                        version = max([version, *(version_of(row.object) for row in table.rows)], key=int)
                        self._show(table)
            except Gone:
                continue

    def _show(self, table: ObjectTable) -> None:
        if not table.rows:
            return
        if self._table is None or self._writer is None:
            self._table = table
            self._writer = TableWriter(format_headers(table, self._options), show_headers=self._headers)
        echo("\n".join(self._writer.lines(format_row(table, row, self._options) for row in table.rows)))

    async def _objects(self, changes_only: bool) -> None:
        cluster, namespace = self._query.session.cluster, self._query.namespace(self._kind)
        labels, fields = self._query.labels, self._fields()
        while True:
            listing = await cluster.list(self._kind, namespace, labels=labels, fields=fields)
            if not changes_only:
                for obj in listing.items:
                    self._show_object(obj)
            changes_only = True
            version = listing.resource_version
            try:
                while True:
                    async for event in cluster.watch(
                        self._kind, namespace, labels=labels, fields=fields, resource_version=version
                    ):
                        version = str(meta(event.object).get("resourceVersion"))
                        if event.type != "BOOKMARK":
                            self._show_object(event.object)
            except Gone:
                continue

    def _show_object(self, obj: Object) -> None:
        if self._format.kind == "custom-columns":
            columns = parse_custom_columns(self._format.template)
            if self._writer is None:
                self._writer = TableWriter([header for header, _ in columns], show_headers=self._headers)
            echo("\n".join(self._writer.lines([custom_column_values(columns, obj)])))
            return
        text = format_objects(self._format, [(self._kind, obj)], single=True, managed_fields=self._managed)
        echo(("---\n" if self._format.kind == "yaml" else "") + text.removesuffix("\n"))

    def _fields(self) -> str:
        own = f"metadata.name={self._name}" if self._name else ""
        return ",".join(part for part in (self._query.fields, own) if part)
