import { useQuery } from "@tanstack/react-query"
import { Link, useNavigate } from "@tanstack/react-router"
import { Plus, X } from "lucide-react"
import { type FormEvent, type ReactNode, useState } from "react"
import { clustersQuery, rootsQuery } from "@/api/options"
import { asProblem, withoutField } from "@/api/problem"
import { volumesQuery } from "@/api/volumes"
import {
  createNotebook,
  imagesQuery,
  type NotebookMount,
  placeOfWorkspace,
  type WorkspaceImage,
} from "@/api/workspaces"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { text } from "@/components/dialog"
import { Loading, ProblemView } from "@/components/feedback"
import { Field, Input, Select, Tick } from "@/components/form"
import { Page } from "@/components/page"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { notebookTexts } from "@/i18n/workspaces"
import { skuText } from "@/lib/amounts"
import { classes } from "@/lib/classes"
import { OwnTeamField } from "@/pages/volumes/list"

const FIELDS = ["name", "team", "image", "cluster", "skus", "cpu", "memory", "gpus", "home_claim", "home_size"]
const IDLE = ["", "0", "60", "240", "1440"] as const

export function NewNotebook() {
  const w = useTexts(notebookTexts)
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  const language = usePreferences((all) => all.language)
  const images = useQuery(imagesQuery)
  const clusters = useQuery(clustersQuery).data?.items.filter(({ usable }) => usable) ?? []
  const volumes = useQuery(volumesQuery({ limit: 200 })).data?.items ?? []
  const [image, setImage] = useState<string>()
  const [cluster, setCluster] = useState("")
  const [home, setHome] = useState("new")
  const [mounts, setMounts] = useState<Mount[]>([])
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const problem = error ? asProblem(error) : undefined
  const fault = (field: string) => problem?.of(field)
  if (images.error) return <ProblemView error={images.error} retry={() => void images.refetch()} />
  if (!images.data) return <Loading />
  const chosen = image ?? images.data[0]?.name ?? OTHER
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const idle = text(form, "idle")
    setBusy(true)
    setError(undefined)
    try {
      const made = await createNotebook({
        name: text(form, "name"),
        team: text(form, "team"),
        image: chosen === OTHER ? text(form, "image") : chosen,
        cluster,
        skus: cluster ? Number(text(form, "skus") || 1) : 0,
        cpu: text(form, "cpu"),
        memory: text(form, "memory"),
        gpus: Number(text(form, "gpus") || 0),
        home: home !== "none",
        home_claim: home === "new" || home === "none" ? "" : home,
        home_size: text(form, "home_size"),
        mounts: mounts.map(toMount),
        env: {},
        cull_idle_minutes: idle === "" ? null : Number(idle),
      })
      note(w("created", { name: made.name }))
      void navigate({ to: "/notebooks/$namespace/$name", params: placeOfWorkspace(made) })
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  const elsewhere =
    problem && (problem.fields.length === 0 || problem.fields.some(({ field }) => !FIELDS.includes(field)))
  return (
    <Page
      title={w("create")}
      lead={w("createLead")}
      above={
        <Link to="/notebooks" className="hover:underline">
          {w("title")}
        </Link>
      }
    >
      <form
        className="flex max-w-3xl flex-col gap-6"
        onSubmit={(event) => void submit(event)}
        onInput={({ target }) =>
          error !== undefined && setError(withoutField(error, (target as HTMLInputElement).name))
        }
      >
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label={c("name")} hint={w("nameHint")} error={fault("name")}>
            {(field) => <Input {...field} name="name" required autoFocus autoComplete="off" spellCheck={false} />}
          </Field>
          <OwnTeamField error={fault("team")} hint={w("teamHint")} />
        </div>
        <Group legend={w("image")}>
          <ImageCards images={images.data} value={chosen} onChange={setImage} />
          {chosen === OTHER && (
            <Field label={w("otherImage")} hint={w("otherImageHint")} error={fault("image")}>
              {(field) => <Input {...field} name="image" required className="font-mono" spellCheck={false} />}
            </Field>
          )}
        </Group>
        <Group legend={w("resources")}>
          <div className="grid gap-4 sm:grid-cols-3">
            {clusters.length > 0 && (
              <Field label={w("cluster")} error={fault("cluster")} className="sm:col-span-2">
                {(field) => (
                  <Select
                    {...field}
                    name="cluster"
                    value={cluster}
                    onChange={(event) => setCluster(event.target.value)}
                  >
                    <option value="">{w("noCluster")}</option>
                    {clusters.map(({ id, name, sku }) => (
                      <option key={id} value={name}>
                        {name} ({skuText(sku, language)})
                      </option>
                    ))}
                  </Select>
                )}
              </Field>
            )}
            {cluster ? (
              <Field label={w("skus")} error={fault("skus")}>
                {(field) => <Input {...field} name="skus" type="number" min={1} max={1000} defaultValue={1} />}
              </Field>
            ) : (
              <>
                <Field label={w("cpu")} hint={w("amountHint")} error={fault("cpu")} className="sm:col-start-1">
                  {(field) => <Input {...field} name="cpu" placeholder="500m" spellCheck={false} />}
                </Field>
                <Field label={w("memory")} hint={w("memoryHint")} error={fault("memory")}>
                  {(field) => <Input {...field} name="memory" placeholder="1Gi" spellCheck={false} />}
                </Field>
                <Field label={w("gpus")} error={fault("gpus")}>
                  {(field) => <Input {...field} name="gpus" type="number" min={0} max={1000} defaultValue={0} />}
                </Field>
              </>
            )}
          </div>
        </Group>
        <Group legend={w("storage")}>
          <div className="grid gap-4 sm:grid-cols-3">
            <Field label={w("home")} error={fault("home_claim")} className="sm:col-span-2">
              {(field) => (
                <Select {...field} value={home} onChange={(event) => setHome(event.target.value)}>
                  <option value="new">{w("newHome")}</option>
                  {volumes.map(({ uid, name }) => (
                    <option key={uid} value={name}>
                      {name}
                    </option>
                  ))}
                  <option value="none">{w("noHome")}</option>
                </Select>
              )}
            </Field>
            {home === "new" && (
              <Field label={w("homeSize")} error={fault("home_size")}>
                {(field) => <Input {...field} name="home_size" placeholder="10Gi" spellCheck={false} />}
              </Field>
            )}
          </div>
          <Mounts
            mounts={mounts}
            volumes={volumes.map(({ name }) => name)}
            onChange={(changed) => {
              setMounts(changed)
              setError(undefined)
            }}
          />
        </Group>
        <Field label={w("idle")} className="max-w-xs">
          {(field) => (
            <Select {...field} name="idle">
              {IDLE.map((minutes) => (
                <option key={minutes} value={minutes}>
                  {minutes === ""
                    ? w("idleUsual")
                    : minutes === "0"
                      ? w("idleNever")
                      : minutes === "60"
                        ? w("idleHour")
                        : w("idleHours", { n: Number(minutes) / 60 })}
                </option>
              ))}
            </Select>
          )}
        </Field>
        {elsewhere && <ProblemView error={error} except={FIELDS} />}
        <div className="flex gap-2">
          <Button type="submit" look="primary" disabled={busy}>
            {c("create")}
          </Button>
          <Button asChild>
            <Link to="/notebooks">{c("cancel")}</Link>
          </Button>
        </div>
      </form>
    </Page>
  )
}

const OTHER = "(other)"

function Group({ legend, children }: { legend: string; children: ReactNode }) {
  return (
    <fieldset className="flex flex-col gap-3">
      <legend className="mb-2 text-base font-semibold">{legend}</legend>
      {children}
    </fieldset>
  )
}

interface ImageProps {
  images: WorkspaceImage[]
  value: string
  onChange: (name: string) => void
}

/** The images as cards that say what is inside. */
function ImageCards({ images, value, onChange }: ImageProps) {
  const w = useTexts(notebookTexts)
  const cards = [
    ...images.map(({ name, title, description, contents, ready }) => ({
      name,
      title,
      description,
      contents: contents.join(" · "),
      ready,
    })),
    { name: OTHER, title: w("otherImage"), description: "", contents: w("otherImageHint"), ready: true },
  ]
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {cards.map((card) => (
        <label
          key={card.name}
          className={classes(
            "flex cursor-pointer gap-3 rounded-lg border bg-card p-3 hover:border-primary",
            value === card.name && "border-primary bg-accent/50",
          )}
        >
          <input
            type="radio"
            name="image-card"
            value={card.name}
            checked={value === card.name}
            onChange={() => onChange(card.name)}
            className="mt-1 size-4 shrink-0 accent-primary"
          />
          <span className="min-w-0">
            <span className="font-medium">{card.title}</span>
            {card.description && <span className="block text-[13px]">{card.description}</span>}
            <span className="block text-[13px] break-words text-muted-foreground">{card.contents}</span>
            {!card.ready && <span className="block text-[13px] text-muted-foreground italic">{w("notReady")}</span>}
          </span>
        </label>
      ))}
    </div>
  )
}

interface Mount {
  id: number
  /** `claim:NAME` or `root:NAME`. */
  source: string
  path: string
  readOnly: boolean
}

export function toMount({ source, path, readOnly }: Omit<Mount, "id">): NotebookMount {
  const [kind, ...rest] = source.split(":")
  const name = rest.join(":")
  return {
    root: kind === "root" ? name : "",
    claim: kind === "claim" ? name : "",
    path: path.trim(),
    read_only: readOnly,
  }
}

interface MountsProps {
  mounts: Mount[]
  /** The names of the volumes to choose from. */
  volumes: string[]
  onChange: (mounts: Mount[]) => void
}

function Mounts({ mounts, volumes, onChange }: MountsProps) {
  const w = useTexts(notebookTexts)
  const c = useTexts(commonTexts)
  const roots = useQuery(rootsQuery).data?.items.filter(({ usable }) => usable) ?? []
  const first = volumes[0] !== undefined ? `claim:${volumes[0]}` : roots[0] ? `root:${roots[0].name}` : undefined
  const change = (id: number, changes: Partial<Mount>) =>
    onChange(mounts.map((mount) => (mount.id === id ? { ...mount, ...changes } : mount)))
  return (
    <>
      {mounts.map((mount) => (
        <div key={mount.id} className="flex flex-wrap items-end gap-3">
          <Field label={w("mount")} className="w-full sm:w-56">
            {(field) => (
              <Select
                {...field}
                value={mount.source}
                onChange={(event) => change(mount.id, { source: event.target.value })}
              >
                {volumes.length > 0 && (
                  <optgroup label={w("volumes")}>
                    {volumes.map((name) => (
                      <option key={name} value={`claim:${name}`}>
                        {name}
                      </option>
                    ))}
                  </optgroup>
                )}
                {roots.length > 0 && (
                  <optgroup label={w("roots")}>
                    {roots.map(({ id, name }) => (
                      <option key={id} value={`root:${name}`}>
                        {name}
                      </option>
                    ))}
                  </optgroup>
                )}
              </Select>
            )}
          </Field>
          <Field label={w("mountPath")} optional className="min-w-40 flex-1">
            {(field) => (
              <Input
                {...field}
                value={mount.path}
                placeholder={usualPath(mount.source, roots)}
                className="font-mono"
                spellCheck={false}
                onChange={(event) => change(mount.id, { path: event.target.value })}
              />
            )}
          </Field>
          <Tick
            label={w("readOnly")}
            className="h-9"
            checked={mount.readOnly}
            onChange={(event) => change(mount.id, { readOnly: event.target.checked })}
          />
          <Button
            look="ghost"
            size="icon"
            aria-label={c("removeOne", { name: mount.source.replace(/^\w+:/, "") })}
            onClick={() => onChange(mounts.filter(({ id }) => id !== mount.id))}
          >
            <X />
          </Button>
        </div>
      ))}
      {first && (
        <Button
          size="small"
          className="self-start"
          onClick={() =>
            onChange([...mounts, { id: Date.now() + mounts.length, source: first, path: "", readOnly: false }])
          }
        >
          <Plus />
          {w("addMount")}
        </Button>
      )}
    </>
  )
}

/** Where it is mounted if no path is given. */
export function usualPath(source: string, roots: { name: string; path: string }[]): string {
  const name = source.replace(/^\w+:/, "")
  return source.startsWith("root:") ? (roots.find((root) => root.name === name)?.path ?? "") : `/data/${name}`
}
