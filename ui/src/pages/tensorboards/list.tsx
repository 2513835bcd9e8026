import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { ChartSpline } from "lucide-react"
import { useMemo, useState } from "react"
import { volumesQuery } from "@/api/volumes"
import { createTensorBoard, placeOfWorkspace, type TensorBoard, tensorBoardsQuery } from "@/api/workspaces"
import { CreateButton } from "@/components/actions"
import { actionsColumn, type Column, NameCell } from "@/components/data-table"
import { FormDialog, text } from "@/components/dialog"
import { StateFilter } from "@/components/filters"
import { Field, Input, Select } from "@/components/form"
import { ListPage } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { OwnTeamField } from "@/components/own-team-field"
import { Owner } from "@/components/owner"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { notebookTexts, tensorBoardTexts, workspaceTexts } from "@/i18n/workspaces"
import { listState } from "@/lib/pagination"
import { OpenButton, STATES, WorkspaceActions, WorkspaceStatus } from "@/pages/notebooks/parts"

const route = getRouteApi("/shell/tensorboards")

export function TensorBoardList() {
  const w = useTexts(tensorBoardTexts)
  const s = useTexts(workspaceTexts)
  const c = useTexts(commonTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-created")
  const { filter, asked } = list
  const state = STATES.find((each) => each === search.state)
  const [creating, setCreating] = useState(false)
  const found = usePage(tensorBoardsQuery({ q: search.q, state: state && [state], ...asked }))
  const columns = useMemo(
    (): Column<TensorBoard>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (board) => (
          <NameCell namespace={board.namespace}>
            <Link to="/tensorboards/$namespace/$name" params={placeOfWorkspace(board)}>
              {board.name}
            </Link>
          </NameCell>
        ),
      },
      { id: "state", header: s("state"), sort: "state", cell: (board) => <WorkspaceStatus workspace={board} /> },
      {
        id: "logs",
        header: w("logs"),
        cell: ({ logs }) => (
          <ul className="font-mono text-[13px]">
            {logs.slice(0, 3).map(({ path }) => (
              <li key={path} className="break-all">
                {path}
              </li>
            ))}
            {logs.length > 3 && <li>+{logs.length - 3}</li>}
          </ul>
        ),
      },
      { id: "owner", header: c("owner"), cell: (board) => <Owner of={board} /> },
      { id: "created", header: c("created"), sort: "created", cell: (board) => <Time at={board.created} /> },
      actionsColumn(c("actions"), (board) => (
        <div className="flex justify-end gap-1">
          <OpenButton workspace={board} small />
          <WorkspaceActions kind="tensorboards" workspace={board} />
        </div>
      )),
    ],
    [w, s, c],
  )
  const create = <CreateButton onClick={() => setCreating(true)}>{w("create")}</CreateButton>
  return (
    <ListPage
      w={w}
      list={list}
      found={found}
      columns={columns}
      rowId={(board) => board.uid}
      icon={ChartSpline}
      create={create}
      filters={<StateFilter states={STATES} w={s} value={state} onChange={(state) => filter({ state })} />}
    >
      {creating && <NewTensorBoard close={() => setCreating(false)} />}
    </ListPage>
  )
}

function NewTensorBoard({ close }: { close: () => void }) {
  const w = useTexts(tensorBoardTexts)
  const c = useTexts(commonTexts)
  const n = useTexts(notebookTexts)
  const navigate = useNavigate()
  const volumes = useQuery(volumesQuery({ limit: 200 })).data?.items
  const [volume, setVolume] = useState<string>()
  const chosen = volume ?? volumes?.[0]?.name ?? ""
  return (
    <FormDialog
      title={w("create")}
      action={c("create")}
      fields={["name", "team", "logs[0].path", "logs"]}
      onClose={close}
      onSubmit={async (form) => {
        const folder = text(form, "folder").replace(/^\/+/, "")
        const path = chosen ? `pvc://${chosen}/${folder}` : text(form, "path")
        const team = text(form, "team")
        const board = await createTensorBoard({ name: text(form, "name"), team, logs: [{ name: "", path }] })
        note(w("created", { name: board.name }))
        void navigate({ to: "/tensorboards/$namespace/$name", params: placeOfWorkspace(board) })
      }}
    >
      {(fault) => (
        <>
          <Field label={c("name")} hint={n("nameHint")} optional error={fault("name")}>
            {(field) => <Input {...field} name="name" autoFocus autoComplete="off" spellCheck={false} />}
          </Field>
          <Field label={w("where")}>
            {(field) => (
              <Select {...field} value={chosen} onChange={(event) => setVolume(event.target.value)}>
                {(volumes ?? []).map(({ uid, name }) => (
                  <option key={uid} value={name}>
                    {w("volume")}: {name}
                  </option>
                ))}
                <option value="">{w("otherPlace")}</option>
              </Select>
            )}
          </Field>
          {chosen ? (
            <Field label={w("folder")} hint={w("folderHint")} optional error={fault("logs[0].path") ?? fault("logs")}>
              {(field) => (
                <Input {...field} name="folder" className="font-mono" spellCheck={false} defaultValue="logs" />
              )}
            </Field>
          ) : (
            <Field label={w("path")} hint={w("pathHint")} error={fault("logs[0].path") ?? fault("logs")}>
              {(field) => <Input {...field} name="path" required className="font-mono" spellCheck={false} />}
            </Field>
          )}
          <OwnTeamField error={fault("team")} />
        </>
      )}
    </FormDialog>
  )
}
