import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { NotebookPen } from "lucide-react"
import { useMemo } from "react"
import { imagesQuery, type Notebook, notebooksQuery, placeOfWorkspace } from "@/api/workspaces"
import { CreateLink } from "@/components/actions"
import { actionsColumn, type Column, NameCell } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox, StateFilter } from "@/components/filters"
import { Listing } from "@/components/listing"
import { Owner } from "@/components/owner"
import { Page } from "@/components/page"
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
  const { filter, asked, shown } = listState(search, navigate, "-created")
  const state = STATES.find((each) => each === search.state)
  const images = useQuery(imagesQuery).data
  const found = useQuery({
    ...notebooksQuery({ q: search.q, ...(state ? { state: [state] } : {}), ...asked }),
    placeholderData: keepPreviousData,
  })
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
    <Page title={w("title")} lead={w("lead")} actions={create} wide>
      <Filters>
        <SearchBox label={w("search")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <StateFilter
          label={s("state")}
          all={s("allStates")}
          states={STATES}
          text={s}
          value={state}
          onChange={(state) => filter({ state })}
        />
      </Filters>
      <Listing
        label={w("title")}
        found={found}
        columns={columns}
        rowId={(notebook) => notebook.uid}
        {...shown}
        clear={search.q || search.state ? () => void navigate({ search: {} }) : undefined}
        empty={
          <Empty icon={NotebookPen} title={w("empty")} actions={create}>
            {w("emptyHelp")}
          </Empty>
        }
      />
    </Page>
  )
}

/** `2 × a100` in a virtual cluster, else `2 CPU · 4Gi · 1 GPU`. */
export function resourceText(notebook: Pick<Notebook, "cluster" | "skus" | "resources" | "gpus">): string {
  if (notebook.cluster) return `${notebook.skus || 1} × ${notebook.cluster}`
  const { cpu, memory } = notebook.resources
  return [cpu && `${cpu} CPU`, memory, notebook.gpus > 0 && `${notebook.gpus} GPU`].filter(Boolean).join(" · ")
}
