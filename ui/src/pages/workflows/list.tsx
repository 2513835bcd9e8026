import { getRouteApi, Link } from "@tanstack/react-router"
import { FileUp, Workflow as Icon, Play } from "lucide-react"
import { useMemo } from "react"
import { type Workflow, workflowsQuery } from "@/api/workflows"
import { CreateLink } from "@/components/actions"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { actionsColumn, type Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { OwnerFilter } from "@/components/filters"
import { Select } from "@/components/form"
import { FilteredList } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"
import { listState } from "@/lib/pagination"

const route = getRouteApi("/shell/workflows")

export function WorkflowList() {
  const w = useTexts(workflowTexts)
  const c = useTexts(commonTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-updated")
  const { filter, asked } = list
  const archived = search.archived === "only" || search.archived === "too" ? search.archived : "no"
  const found = usePage(workflowsQuery({ q: search.q, owner: search.owner, archived, ...asked }))

  const columns = useMemo(
    (): Column<Workflow>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (workflow) => (
          <div className="max-w-md">
            <div className="flex items-center gap-2">
              <Link
                to="/workflows/$workflow"
                params={{ workflow: workflow.id }}
                className="truncate font-medium text-primary hover:underline"
              >
                {workflow.name}
              </Link>
              {workflow.archived && <Badge>{w("archived")}</Badge>}
            </div>
            {workflow.description && (
              <div className="truncate text-[13px] text-muted-foreground">{workflow.description}</div>
            )}
          </div>
        ),
      },
      { id: "versions", header: w("versions"), sort: "versions", cell: (workflow) => workflow.versions },
      { id: "owner", header: c("owner"), sort: "owner", cell: (workflow) => workflow.owner_name },
      { id: "team", header: c("team"), cell: (workflow) => workflow.team_name ?? "–" },
      { id: "updated", header: c("updated"), sort: "updated", cell: (workflow) => <Time at={workflow.updated} /> },
      actionsColumn(
        c("actions"),
        (workflow) =>
          !workflow.archived && (
            <Button asChild size="small">
              <Link to="/runs/new" search={{ workflow: workflow.id }} aria-label={w("runOne", { name: workflow.name })}>
                <Play />
                {w("run")}
              </Link>
            </Button>
          ),
      ),
    ],
    [w, c],
  )

  const create = (
    <>
      <Button asChild>
        <Link to="/workflows/new" search={{ type: "yaml" }}>
          <FileUp />
          {w("import")}
        </Link>
      </Button>
      <CreateLink to="/workflows/new">{w("create")}</CreateLink>
    </>
  )
  return (
    <Page title={w("title")} lead={w("lead")} actions={create}>
      <FilteredList
        list={list}
        search={w("searchLabel")}
        filters={
          <>
            <OwnerFilter value={search.owner} onChange={(owner) => filter({ owner })} />
            <Select
              aria-label={w("archivedFilter")}
              className="w-auto"
              value={archived}
              onChange={(event) => filter({ archived: event.target.value === "no" ? undefined : event.target.value })}
            >
              <option value="no">{w("archivedNo")}</option>
              <option value="only">{w("archivedOnly")}</option>
              <option value="too">{w("archivedToo")}</option>
            </Select>
          </>
        }
        label={w("title")}
        found={found}
        columns={columns}
        rowId={(workflow) => workflow.id}
        empty={
          <Empty icon={Icon} title={w("empty")} actions={create}>
            {w("emptyHelp")}
          </Empty>
        }
      />
    </Page>
  )
}
