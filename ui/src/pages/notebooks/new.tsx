import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { Plus, X } from "lucide-react"
import { type FormEvent, type ReactNode, useState } from "react"
import { clustersQuery, rootsQuery } from "@/api/options"
import { asProblem, failure, withoutField } from "@/api/problem"
import { volumesQuery } from "@/api/volumes"
import {
  createNotebook,
  editNotebook,
  imagesQuery,
  type Notebook,
  type NotebookBody,
  type NotebookMount,
  notebookQuery,
  placeOfWorkspace,
  type WorkspaceImage,
} from "@/api/workspaces"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { text } from "@/components/dialog"
import { Loading, ProblemView } from "@/components/feedback"
import { Field, Input, Select, Tick } from "@/components/form"
import { OwnTeamField } from "@/components/own-team-field"
import { Page } from "@/components/page"
import { note } from "@/components/toasts"
import { RestoredNote, useTypedForm } from "@/components/typed-form"
import { commonTexts } from "@/i18n/common"
import { useTexts, useTranslate } from "@/i18n/translate"
import { imageTexts, notebookTexts } from "@/i18n/workspaces"
import { skuText } from "@/lib/amounts"
import { classes } from "@/lib/classes"

const FIELDS = ["name", "team", "image", "cluster", "skus", "cpu", "memory", "gpus", "home_claim", "home_size"]
const IDLE = ["", "0", "60", "240", "1440"] as const

export function NewNotebook() {
  const w = useTexts(notebookTexts)
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
      <NotebookForm />
    </Page>
  )
}

const route = getRouteApi("/shell/notebooks/$namespace/$name/edit")

export function EditNotebook() {
  const w = useTexts(notebookTexts)
  const place = route.useParams()
  const found = useQuery(notebookQuery(place))
  const roots = useQuery(rootsQuery)
  if (failure(found)) return <ProblemView error={found.error} retry={() => void found.refetch()} />
  if (failure(roots)) return <ProblemView error={roots.error} retry={() => void roots.refetch()} />
  if (!found.data || !roots.data) return <Loading />
  return (
    <Page
      title={w("editTitle", { name: place.name })}
      lead={w(found.data.state === "stopped" ? "editLeadStopped" : "editLead")}
      above={
        <Link to="/notebooks/$namespace/$name" params={place} className="hover:underline">
          {place.name}
        </Link>
      }
    >
      <NotebookForm of={found.data} roots={roots.data.items} />
    </Page>
  )
}

/** The form of a new notebook, or of one that exists: its name, team and home volume stay. */
function NotebookForm({ of, roots = [] }: { of?: Notebook; roots?: MountRoot[] }) {
  const w = useTexts(notebookTexts)
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  const language = usePreferences((all) => all.language)
  const images = useQuery(imagesQuery)
  const clusters = useQuery(clustersQuery).data?.items.filter(({ usable }) => usable) ?? []
  const volumes = useQuery(volumesQuery({ limit: 200 })).data?.items ?? []
  const before = of && formMounts(of, roots)
  const [image, setImage] = useState<string | undefined>(of && (of.image_name || OTHER))
  const [cluster, setCluster] = useState(of?.cluster ?? "")
  const [home, setHome] = useState("new")
  const [mounts, setMounts] = useState<Mount[]>(before ?? [])
  const typed = useTypedForm("notebook")
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const problem = error ? asProblem(error) : undefined
  const fault = (field: string) => problem?.of(field)
  if (failure(images)) return <ProblemView error={images.error} retry={() => void images.refetch()} />
  if (!images.data) return <Loading />
  const chosen = image ?? images.data[0]?.name ?? OTHER
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const idle = text(form, "idle")
    const changes = {
      image: chosen === OTHER ? text(form, "image") : chosen,
      cluster,
      skus: cluster ? Number(text(form, "skus") || 1) : 0,
      cpu: text(form, "cpu"),
      memory: text(form, "memory"),
      gpus: Number(text(form, "gpus") || 0),
      mounts: mounts.map(toMount),
      cull_idle_minutes: idle === "" ? null : Number(idle),
    }
    setBusy(true)
    setError(undefined)
    try {
      const made = of
        ? await editNotebook(of, onlyChanges(of, changes, before))
        : await createNotebook({
            ...changes,
            name: text(form, "name"),
            team: text(form, "team"),
            home: home !== "none",
            home_claim: home === "new" || home === "none" ? "" : home,
            home_size: text(form, "home_size"),
            env: {},
          })
      typed.forget()
      note(w(of ? "edited" : "created", { name: made.name }))
      void navigate({ to: "/notebooks/$namespace/$name", params: placeOfWorkspace(made) })
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  const amounts = amountsOf(of)
  const elsewhere =
    problem && (problem.fields.length === 0 || problem.fields.some(({ field }) => !FIELDS.includes(field)))
  return (
    <form
      ref={typed.form}
      className="flex max-w-3xl flex-col gap-6"
      onSubmit={(event) => void submit(event)}
      onInput={({ target }) => error !== undefined && setError(withoutField(error, (target as HTMLInputElement).name))}
    >
      <RestoredNote typed={typed} />
      {!of && (
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label={c("name")} hint={w("nameHint")} error={fault("name")}>
            {(field) => <Input {...field} name="name" required autoFocus autoComplete="off" spellCheck={false} />}
          </Field>
          <OwnTeamField error={fault("team")} hint={w("teamHint")} />
        </div>
      )}
      <Group legend={w("image")}>
        <ImageCards images={images.data} value={chosen} onChange={setImage} />
        {chosen === OTHER && (
          <Field label={w("otherImage")} hint={w("otherImageHint")} error={fault("image")}>
            {(field) => (
              <Input
                {...field}
                name="image"
                required
                className="font-mono"
                spellCheck={false}
                defaultValue={of?.image_name ? "" : of?.image}
              />
            )}
          </Field>
        )}
      </Group>
      <Group legend={w("resources")}>
        <div className="grid gap-4 sm:grid-cols-3">
          {clusters.length > 0 && (
            <Field label={w("cluster")} error={fault("cluster")} className="sm:col-span-2">
              {(field) => (
                <Select {...field} name="cluster" value={cluster} onChange={(event) => setCluster(event.target.value)}>
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
              {(field) => (
                <Input {...field} name="skus" type="number" min={1} max={1000} defaultValue={of?.skus || 1} />
              )}
            </Field>
          ) : (
            <>
              <Field label={w("cpu")} hint={w("amountHint")} error={fault("cpu")} className="sm:col-start-1">
                {(field) => (
                  <Input {...field} name="cpu" placeholder="500m" spellCheck={false} defaultValue={amounts.cpu} />
                )}
              </Field>
              <Field label={w("memory")} hint={w("memoryHint")} error={fault("memory")}>
                {(field) => (
                  <Input {...field} name="memory" placeholder="1Gi" spellCheck={false} defaultValue={amounts.memory} />
                )}
              </Field>
              <Field label={w("gpus")} error={fault("gpus")}>
                {(field) => (
                  <Input {...field} name="gpus" type="number" min={0} max={1000} defaultValue={amounts.gpus} />
                )}
              </Field>
            </>
          )}
        </div>
      </Group>
      <Group legend={w("storage")}>
        {!of && (
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
        )}
        {of && !before ? (
          <p className="text-muted-foreground">{w("mountsStay")}</p>
        ) : (
          <Mounts
            mounts={mounts}
            volumes={volumes.filter((each) => !of || each.namespace === of.namespace).map(({ name }) => name)}
            onChange={(changed) => {
              setMounts(changed)
              setError(undefined)
            }}
          />
        )}
      </Group>
      <Field label={w("idle")} className="max-w-xs">
        {(field) => (
          <Select {...field} name="idle" defaultValue={of ? String(of.cull_idle_minutes) : ""}>
            {idleChoices(of).map((minutes) => (
              <option key={minutes} value={minutes}>
                {minutes === ""
                  ? w("idleUsual")
                  : minutes === "0"
                    ? w("idleNever")
                    : minutes === "60"
                      ? w("idleHour")
                      : Number(minutes) % 60
                        ? w("idleMinutes", { n: Number(minutes) })
                        : w("idleHours", { n: Number(minutes) / 60 })}
              </option>
            ))}
          </Select>
        )}
      </Field>
      {elsewhere && <ProblemView error={error} except={FIELDS} />}
      <div className="flex gap-2">
        <Button type="submit" look="primary" disabled={busy}>
          {of ? c("save") : c("create")}
        </Button>
        <Button asChild>
          {of ? (
            <Link to="/notebooks/$namespace/$name" params={placeOfWorkspace(of)}>
              {c("cancel")}
            </Link>
          ) : (
            <Link to="/notebooks">{c("cancel")}</Link>
          )}
        </Button>
      </div>
    </form>
  )
}

function amountsOf(of?: Notebook): { cpu: string; memory: string; gpus: number } {
  if (!of || of.cluster) return { cpu: "", memory: "", gpus: 0 }
  return { cpu: of.resources.cpu ?? "", memory: of.resources.memory ?? "", gpus: of.gpus }
}

/** The times to choose from, and the one that the notebook has. */
function idleChoices(of?: Notebook): string[] {
  if (!of) return [...IDLE]
  const own = String(of.cull_idle_minutes)
  const usual = IDLE.filter((minutes) => minutes !== "")
  return usual.some((minutes) => minutes === own) ? usual : [own, ...usual]
}

type Changes = Pick<
  NotebookBody,
  "image" | "cluster" | "skus" | "cpu" | "memory" | "gpus" | "mounts" | "cull_idle_minutes"
>

/** What of a form differs from the notebook. Anything else would restart it for nothing. */
export function onlyChanges(of: Notebook, form: Changes, mounts: Omit<Mount, "id">[] | undefined): Partial<Changes> {
  const { image, mounts: wanted, cull_idle_minutes, ...resources } = form
  const old = { cluster: of.cluster, skus: of.cluster ? of.skus : 0, ...amountsOf(of) }
  const amounts = of.cluster || resources.cluster ? ["cluster", "skus"] : ["cpu", "memory", "gpus"]
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)
  const differs = amounts.some((key) => !same(old[key as keyof typeof old], resources[key as keyof typeof old]))
  return {
    ...(image === (of.image_name || of.image) ? {} : { image }),
    ...(differs ? resources : {}),
    ...(mounts && !same(mounts.map(toMount), wanted) ? { mounts: wanted } : {}),
    ...(cull_idle_minutes === of.cull_idle_minutes ? {} : { cull_idle_minutes }),
  }
}

interface MountRoot {
  name: string
  path: string
}

/** What a notebook mounts besides its home, as the form has it; undefined if the form cannot express it. */
export function formMounts(of: Notebook, roots: MountRoot[]): Mount[] | undefined {
  const found = of.mounts
    .filter(({ claim, path }) => !(claim === of.home && path === HOME))
    .map(({ claim, path, sub_path, read_only }, id): Mount | undefined => {
      const root = roots.find((each) => each.path === path)
      if (root) return { id, source: `root:${root.name}`, path, readOnly: read_only }
      return claim && !sub_path ? { id, source: `claim:${claim}`, path, readOnly: read_only } : undefined
    })
  return found.every((mount) => mount !== undefined) ? found : undefined
}

const HOME = "/home/jovyan"

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
  const text = useTranslate()
  const cards = [
    ...images.map(({ name, title, description, contents, ready }) => ({
      name,
      title,
      // Those of an admin are in the language of the admin.
      description: imageTexts[name]?.[0] === description ? text(imageTexts[name]) : description,
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
