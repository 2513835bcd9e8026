import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import {
  Archive,
  ArchiveRestore,
  ArrowLeftRight,
  Copy,
  Download,
  EllipsisVertical,
  Pencil,
  Play,
  Trash2,
} from "lucide-react"
import { useMemo, useState } from "react"
import { failure } from "@/api/problem"
import { useLiveRuns } from "@/api/runs"
import {
  archiveVersion,
  archiveWorkflow,
  deleteWorkflow,
  manifestAddress,
  type Version,
  versionsQuery,
  workflowQuery,
} from "@/api/workflows"
import { type Action, Actions, CreateLink } from "@/components/actions"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { actionsColumn, type Column } from "@/components/data-table"
import { Loading, ProblemView } from "@/components/feedback"
import { Listing, usePage } from "@/components/listing"
import { Menu } from "@/components/menu"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { note, noteError } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { historyTexts } from "@/i18n/tags"
import { useTexts } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"
import { listState } from "@/lib/pagination"
import { RecentRuns, RunHistory } from "./history"
import { EditWorkflow } from "./workflow-form"

const route = getRouteApi("/shell/workflows/$workflow")
const NONE: string[] = []
const NOT_SEARCHED = {}

export function WorkflowDetail() {
  const w = useTexts(workflowTexts)
  const c = useTexts(commonTexts)
  const h = useTexts(historyTexts)
  const { workflow: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const workflow = useQuery(workflowQuery(id))
  const tab = search.tab === "runs" ? "runs" : "versions"
  const { asked, shown } = listState(tab === "versions" ? search : NOT_SEARCHED, navigate, "-number")
  useLiveRuns()
  const versions = usePage(versionsQuery(id, asked))
  const [editing, setEditing] = useState(false)
  const may = workflow.data?.may ?? NONE

  const columns = useMemo(
    (): Column<Version>[] => [
      {
        id: "name",
        header: w("version"),
        sort: "number",
        cell: (version) => (
          <div className="max-w-md">
            <div className="flex items-center gap-2">
              <Link
                to="/workflows/$workflow/versions/$version"
                params={{ workflow: id, version: String(version.number) }}
                className="font-medium text-primary hover:underline"
              >
                {version.name}
              </Link>
              {version.archived && <Badge>{w("archived")}</Badge>}
              {version.type === "yaml" && <Badge tone="primary">YAML</Badge>}
            </div>
            {version.description && (
              <div className="truncate text-[13px] text-muted-foreground">{version.description}</div>
            )}
          </div>
        ),
      },
      { id: "nodes", header: w("nodes"), cell: (version) => (version.type === "graph" ? version.nodes : "–") },
      { id: "author", header: c("author"), sort: "author", cell: (version) => version.author_name },
      { id: "created", header: c("created"), cell: (version) => <Time at={version.created} /> },
      actionsColumn(c("actions"), (version) => (
        <>
          {!version.archived && (
            <Button asChild size="small" className="mr-1">
              <Link
                to="/runs/new"
                search={{ workflow: id, version: String(version.number) }}
                aria-label={`${w("run")}: ${version.name}`}
              >
                <Play />
                {w("run")}
              </Link>
            </Button>
          )}
          <VersionActions workflow={id} version={version} may={may} />
        </>
      )),
    ],
    [w, c, id, may],
  )

  if (failure(workflow))
    return (
      <Page title={w("title")}>
        <ProblemView error={workflow.error} retry={() => void workflow.refetch()} />
      </Page>
    )
  if (!workflow.data) return <Loading />
  const { name, description, owner_name, team_name, archived, versions: count } = workflow.data
  const allow = (action: string, what: Action) => (may.includes(action) ? what : undefined)
  const edit: Action = { label: c("edit"), icon: <Pencil />, run: () => setEditing(true) }
  const restore: Action = {
    label: w("restore"),
    icon: <ArchiveRestore />,
    run: () => archiveWorkflow(id, false),
  }
  const archive: Action = {
    label: w("archive"),
    icon: <Archive />,
    confirm: { title: w("archiveTitle", { name }), lead: w("archiveHelp") },
    run: () => archiveWorkflow(id, true),
  }
  const remove: Action = {
    label: c("delete"),
    icon: <Trash2 />,
    danger: true,
    confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
    run: async () => {
      await deleteWorkflow(id)
      note(w("deleted", { name }))
      void navigate({ to: "/workflows" })
    },
  }
  return (
    <Page
      title={name}
      aside={archived && <Badge>{w("archived")}</Badge>}
      above={
        <Link to="/workflows" className="hover:underline">
          {w("title")}
        </Link>
      }
      lead={
        <>
          {description && <p>{description}</p>}
          <p className="text-[13px]">
            {c("owner")}: {owner_name}
            {team_name && ` · ${c("team")}: ${team_name}`}
          </p>
        </>
      }
      actions={
        <>
          <Button asChild>
            <Link
              to="/workflows/$workflow/diff"
              params={{ workflow: id }}
              search={count > 1 ? { before: String(count - 1), after: String(count) } : {}}
            >
              <ArrowLeftRight />
              {w("compare")}
            </Link>
          </Button>
          {!archived && may.includes("create version") && (
            <CreateLink to="/workflows/$workflow/new-version" params={{ workflow: id }}>
              {w("newVersion")}
            </CreateLink>
          )}
          {count > 0 && !may.includes("create version") && (
            <CreateLink
              to="/workflows/$workflow/versions/$version/copy"
              params={{ workflow: id, version: "latest" }}
              search={{ into: "new" }}
            >
              {w("saveAsNew")}
            </CreateLink>
          )}
          <Actions
            actions={[allow("edit", edit), allow("archive", archived ? restore : archive), allow("delete", remove)]}
            large
          />
        </>
      }
    >
      <RecentRuns workflow={id} />
      <Tabs
        tabs={[
          {
            id: "versions",
            label: w("versions"),
            content: (
              <Listing
                label={w("versions")}
                found={versions}
                columns={columns}
                rowId={(version) => version.id}
                {...shown}
              />
            ),
          },
          { id: "runs", label: h("runs"), content: <RunHistory workflow={id} /> },
        ]}
        value={tab}
        // The lists have different orders and pages.
        onChange={(tab) => void navigate({ search: { tab }, replace: true })}
        inside="flex flex-col gap-3 pt-3"
      />
      {editing && <EditWorkflow workflow={workflow.data} close={() => setEditing(false)} />}
    </Page>
  )
}

function VersionActions({ workflow, version, may }: { workflow: string; version: Version; may: string[] }) {
  const w = useTexts(workflowTexts)
  const c = useTexts(commonTexts)
  const navigate = route.useNavigate()
  const number = String(version.number)
  const copy = (into?: string) => () =>
    void navigate({
      to: "/workflows/$workflow/versions/$version/copy",
      params: { workflow, version: number },
      search: { into },
    })
  const archive = () => {
    archiveVersion(workflow, number, !version.archived).catch(noteError)
  }
  return (
    <Menu
      items={[
        ...(may.includes("create version") ? [{ label: w("copySame"), icon: <Copy />, onSelect: copy() }] : []),
        { label: w("copyNew"), icon: <Copy />, onSelect: copy("new") },
        "line",
        {
          label: w("exportYaml"),
          icon: <Download />,
          onSelect: () => location.assign(manifestAddress(workflow, number)),
        },
        {
          label: w("compare"),
          icon: <ArrowLeftRight />,
          onSelect: () =>
            void navigate({
              to: "/workflows/$workflow/diff",
              params: { workflow },
              search: { before: number, after: "latest" },
            }),
        },
        ...(may.includes("archive")
          ? [
              "line" as const,
              version.archived
                ? { label: w("restore"), icon: <ArchiveRestore />, onSelect: archive }
                : { label: w("archive"), icon: <Archive />, onSelect: archive },
            ]
          : []),
      ]}
    >
      <Button look="ghost" size="icon" aria-label={`${c("actions")}: ${version.name}`}>
        <EllipsisVertical />
      </Button>
    </Menu>
  )
}
