import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { CircleCheck, CircleDashed, CircleX, HardDrive, Trash2 } from "lucide-react"
import { useMemo, useState } from "react"
import {
  type AccessMode,
  createVolume,
  deleteVolume,
  placeOfVolume,
  type Volume,
  type VolumeUse,
  volumesQuery,
} from "@/api/volumes"
import { Actions, CreateButton } from "@/components/actions"
import { Badge, type Tone } from "@/components/badge"
import { actionsColumn, type Column, NameCell } from "@/components/data-table"
import { FormDialog, text } from "@/components/dialog"
import { OwnerFilter } from "@/components/filters"
import { Field, Input, Select } from "@/components/form"
import { ListPage } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { OwnTeamField } from "@/components/own-team-field"
import { Owner } from "@/components/owner"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { volumeTexts } from "@/i18n/workspaces"
import { listState } from "@/lib/pagination"

const route = getRouteApi("/shell/volumes")
const ACCESS_MODES: AccessMode[] = ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"]

export function VolumeList() {
  const w = useTexts(volumeTexts)
  const c = useTexts(commonTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "name")
  const { filter, asked } = list
  const [creating, setCreating] = useState(false)
  const found = usePage(volumesQuery({ q: search.q, owner: search.owner, ...asked }))
  const columns = useMemo(
    (): Column<Volume>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (volume) => (
          <NameCell namespace={volume.namespace}>
            <Link to="/volumes/$namespace/$name" params={placeOfVolume(volume)}>
              {volume.name}
            </Link>
          </NameCell>
        ),
      },
      { id: "state", header: w("state"), sort: "state", cell: (volume) => <VolumeState volume={volume} /> },
      { id: "size", header: w("size"), sort: "size", cell: (volume) => volume.size },
      {
        id: "access",
        header: w("access"),
        cell: (volume) => (
          <span className="text-[13px]">
            {volume.access_modes.map((mode) => accessText(mode, w)).join(c("listComma"))}
          </span>
        ),
      },
      { id: "usedBy", header: w("usedBy"), cell: (volume) => <Uses uses={volume.used_by} most={2} /> },
      { id: "owner", header: c("owner"), cell: (volume) => <VolumeOwner volume={volume} /> },
      { id: "created", header: c("created"), sort: "created", cell: (volume) => <Time at={volume.created} /> },
      actionsColumn(c("actions"), (volume) => <VolumeActions volume={volume} />),
    ],
    [w, c],
  )
  const create = <CreateButton onClick={() => setCreating(true)}>{w("create")}</CreateButton>
  return (
    <ListPage
      w={w}
      list={list}
      found={found}
      columns={columns}
      rowId={(volume) => volume.uid}
      icon={HardDrive}
      create={create}
      filters={<OwnerFilter value={search.owner} onChange={(owner) => filter({ owner })} />}
    >
      {creating && <NewVolume close={() => setCreating(false)} />}
    </ListPage>
  )
}

function NewVolume({ close }: { close: () => void }) {
  const w = useTexts(volumeTexts)
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  return (
    <FormDialog
      title={w("create")}
      action={c("create")}
      fields={["name", "size", "access_mode", "team"]}
      onClose={close}
      onSubmit={async (form) => {
        const made = await createVolume({
          name: text(form, "name"),
          size: text(form, "size"),
          access_mode: text(form, "access_mode") as AccessMode,
          team: text(form, "team"),
        })
        note(w("created", { name: made.name }))
        void navigate({ to: "/volumes/$namespace/$name", params: placeOfVolume(made) })
      }}
    >
      {(fault) => (
        <>
          <Field label={c("name")} hint={w("nameHint")} error={fault("name")}>
            {(field) => <Input {...field} name="name" required autoFocus autoComplete="off" spellCheck={false} />}
          </Field>
          <Field label={w("size")} hint={w("sizeHint")} error={fault("size")}>
            {(field) => <Input {...field} name="size" required defaultValue="10Gi" spellCheck={false} />}
          </Field>
          <Field label={w("access")} error={fault("access_mode")}>
            {(field) => (
              <Select {...field} name="access_mode">
                {ACCESS_MODES.map((mode) => (
                  <option key={mode} value={mode}>
                    {w(mode)} ({mode})
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <OwnTeamField error={fault("team")} hint={w("teamHint")} />
        </>
      )}
    </FormDialog>
  )
}

const LOOKS: Record<Volume["state"], { tone: Tone; icon: typeof CircleX }> = {
  pending: { tone: "waiting", icon: CircleDashed },
  bound: { tone: "succeeded", icon: CircleCheck },
  lost: { tone: "failed", icon: CircleX },
  deleting: { tone: "waiting", icon: Trash2 },
}

export function VolumeState({ volume }: { volume: Pick<Volume, "state"> }) {
  const w = useTexts(volumeTexts)
  const { tone, icon: Icon } = LOOKS[volume.state]
  return (
    <Badge tone={tone}>
      <Icon aria-hidden />
      {w(volume.state)}
    </Badge>
  )
}

export function accessText(mode: string, w: (word: AccessMode) => string): string {
  return ACCESS_MODES.includes(mode as AccessMode) ? w(mode as AccessMode) : mode
}

export function VolumeOwner({ volume }: { volume: Volume }) {
  const w = useTexts(volumeTexts)
  if (volume.shared) return <span className="text-muted-foreground">{w("shared")}</span>
  return <Owner of={volume} />
}

/** What uses a volume. `most`: how many are shown before the rest is counted. */
export function Uses({ uses, most = Infinity }: { uses: VolumeUse[]; most?: number }) {
  const w = useTexts(volumeTexts)
  if (uses.length === 0) return <span className="text-muted-foreground">{w("notUsed")}</span>
  return (
    <ul className="text-[13px]">
      {uses.slice(0, most).map((use) => (
        <li key={`${use.kind} ${use.namespace}/${use.name}`} className="break-all">
          <span className="text-muted-foreground">{w(use.kind)}</span> <UseLink use={use} />
        </li>
      ))}
      {uses.length > most && <li className="text-muted-foreground">+{uses.length - most}</li>}
    </ul>
  )
}

function UseLink({ use }: { use: VolumeUse }) {
  const link = "text-primary underline underline-offset-2"
  if (use.kind === "run")
    return (
      <Link to="/runs/$run" params={{ run: use.run_id }} className={link}>
        {use.name}
      </Link>
    )
  if (use.kind === "job" && use.resource)
    return (
      <Link
        to="/jobs/$namespace/$kind/$name"
        params={{ namespace: use.namespace, kind: use.resource, name: use.name }}
        className={link}
      >
        {use.name}
      </Link>
    )
  if (use.kind === "notebook" || use.kind === "tensorboard")
    return (
      <Link
        to={use.kind === "notebook" ? "/notebooks/$namespace/$name" : "/tensorboards/$namespace/$name"}
        params={{ namespace: use.namespace, name: use.name }}
        className={link}
      >
        {use.name}
      </Link>
    )
  return <span>{use.name}</span>
}

export function VolumeActions({ volume, open }: { volume: Volume; open?: boolean }) {
  const w = useTexts(volumeTexts)
  const navigate = useNavigate()
  const { name } = volume
  const remove = {
    label: w("delete"),
    icon: <Trash2 />,
    danger: true,
    confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
    run: async () => {
      await deleteVolume(placeOfVolume(volume))
      note(w("deleted", { name }))
      void navigate({ to: "/volumes" })
    },
  }
  const allowed = volume.may.includes("delete") && volume.state !== "deleting"
  return <Actions name={name} actions={[allowed ? remove : undefined]} open={open} />
}
