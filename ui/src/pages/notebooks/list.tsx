import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { NotebookPen } from "lucide-react"
import { useMemo } from "react"
import { imagesQuery, type Notebook, notebooksQuery, placeOfWorkspace } from "@/api/workspaces"
import { CreateLink } from "@/components/actions"
import { actionsColumn, type Column, NameCell } from "@/components/data-table"
import { StateFilter } from "@/components/filters"
import { ListPage } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { Owner } from "@/components/owner"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { notebookTexts, workspaceTexts } from "@/i18n/workspaces"
import { listState } from "@/lib/pagination"
import { OpenButton, STATES, WorkspaceActions, WorkspaceStatus } from "./parts"

const route = getRouteApi("/shell/notebooks")

export function NotebookList() {
  const w = useTexts(notebookTexts)
  const s = useTexts(workspaceTexts)
  const c = useTexts(commonTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-created")
  const { filter, asked } = list
  const state = STATES.find((each) => each === search.state)
  const images = useQuery(imagesQuery).data
  const found = usePage(notebooksQuery({ q: search.q, state: state && [state], ...asked }))
  const columns = useMemo(
    (): Column<Notebook>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (notebook) => (
          <NameCell namespace={notebook.namespace}>
            <Link to="/notebooks/$namespace/$name" params={placeOfWorkspace(notebook)}>
              {notebook.name}
            </Link>
          </NameCell>
        ),
      },
      { id: "state", header: s("state"), sort: "state", cell: (notebook) => <WorkspaceStatus workspace={notebook} /> },
      {
        id: "image",
        header: w("image"),
        cell: (notebook) => (
          <span title={notebook.image} className="text-[13px] break-all">
            {images?.find(({ name }) => name === notebook.image_name)?.title ?? notebook.image}
          </span>
        ),
      },
      {
        id: "resources",
        header: w("resources"),
        cell: (notebook) => <span className="text-[13px]">{resourceText(notebook)}</span>,
      },
      {
        id: "activity",
        header: w("lastActivity"),
        cell: (notebook) => (notebook.last_activity ? <Time at={notebook.last_activity} /> : ""),
      },
      { id: "owner", header: c("owner"), cell: (notebook) => <Owner of={notebook} /> },
      { id: "created", header: c("created"), sort: "created", cell: (notebook) => <Time at={notebook.created} /> },
      actionsColumn(c("actions"), (notebook) => (
        <div className="flex justify-end gap-1">
          <OpenButton workspace={notebook} small />
          <WorkspaceActions kind="notebooks" workspace={notebook} home={notebook.home} />
        </div>
      )),
    ],
    [w, s, c, images],
  )
  const create = <CreateLink to="/notebooks/new">{w("create")}</CreateLink>
  return (
    <ListPage
      w={w}
      list={list}
      found={found}
      columns={columns}
      rowId={(notebook) => notebook.uid}
      icon={NotebookPen}
      create={create}
      filters={<StateFilter states={STATES} w={s} value={state} onChange={(state) => filter({ state })} />}
    />
  )
}

/** `2 × a100` in a virtual cluster, else `2 CPU · 4Gi · 1 GPU`. */
export function resourceText(notebook: Pick<Notebook, "cluster" | "skus" | "resources" | "gpus">): string {
  if (notebook.cluster) return `${notebook.skus || 1} × ${notebook.cluster}`
  const { cpu, memory } = notebook.resources
  return [cpu && `${cpu} CPU`, memory, notebook.gpus > 0 && `${notebook.gpus} GPU`].filter(Boolean).join(" · ")
}
