/** The page that edits a version: on the canvas, or as a manifest. */
import { Save } from "lucide-react"
import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react"
import { useStore } from "zustand"
import { useMe } from "@/api/client"
import { asProblem } from "@/api/problem"
import type { Stored, VersionText } from "@/api/workflows"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { Dialog, LeaveGuard } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Field, Input, Select, TextArea } from "@/components/form"
import { useTitle } from "@/components/page"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { EMPTY, type GraphDocument, isGraph } from "@/graph/document"
import { drawn, written } from "@/graph/drawing"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { type Draft, draftKey, readDraft, removeDraft, writeDraft } from "./draft"
import { Editor } from "./editor"
import { Section } from "./form-parts"
import { ManifestEditor } from "./manifest-editor"
import { isChanged, newCanvas } from "./store"

const DRAFT_MILLISECONDS = 400

interface Props {
  title: string
  above?: ReactNode
  /** The initial document. */
  document?: GraphDocument
  type?: "graph" | "yaml"
  /** The fields of the workflow, if a new one is created. */
  workflowFields?: (fault: (field: string) => string | undefined) => ReactNode
  /** Whether those fields were changed. */
  touched?: boolean
  /** The reason why it cannot be saved yet. */
  missing?: string
  /** The fields of a new workflow, for the draft. */
  draft?: { workflow: Record<string, string>; restore: (workflow: Record<string, string>) => void }
  /** With `anyway`, also if someone else has saved a version meanwhile. */
  save: (version: VersionText, anyway: boolean) => Promise<Stored>
  saved: (stored: Stored) => void
  /** What someone else has saved meanwhile. */
  findNewer?: () => Promise<NewerVersion | undefined>
}

export interface NewerVersion {
  name: string
  author: string
  /** A link to the comparison. */
  compare: ReactNode
}

export function EditorPage({
  title,
  above,
  document = EMPTY,
  type,
  workflowFields,
  touched,
  missing,
  draft,
  save,
  saved,
  findNewer,
}: Props) {
  const w = useTexts(editorTexts)
  const c = useTexts(commonTexts)
  useTitle(title)
  const [mode, setMode] = useState<"graph" | "yaml">(type ?? (isGraph(document) ? "graph" : "yaml"))
  const [start, setStart] = useState(() => drawn(isGraph(document) ? document : EMPTY))
  const store = useMemo(() => newCanvas(start.drawing), [start])
  const [manifest, setManifest] = useState(document.manifest ?? "")
  const [opened, setOpened] = useState(false)
  const [name, setName] = useState("")
  const [description, setDescription] = useState("")
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const [done, setDone] = useState(false)
  const [tried, setTried] = useState(false)
  const [newer, setNewer] = useState<NewerVersion>()
  const key = draftKey(useMe().user.id, location.pathname + location.search)
  const [offered, setOffered] = useState(() => readDraft(localStorage, key, Date.now()))

  const canvasChanged = useStore(store, isChanged)
  const changed =
    !done &&
    (canvasChanged ||
      opened ||
      Boolean(touched) ||
      manifest !== (document.manifest ?? "") ||
      name !== "" ||
      description !== "")

  const workflow = draft?.workflow
  useEffect(() => {
    if (!changed) return
    const keep = () =>
      writeDraft(localStorage, key, {
        at: Date.now(),
        mode,
        document: written(store.getState().drawing),
        manifest,
        name,
        description,
        workflow,
      })
    let timer = setTimeout(keep, DRAFT_MILLISECONDS)
    const stop = store.subscribe((now, before) => {
      if (now.drawing === before.drawing) return
      clearTimeout(timer)
      timer = setTimeout(keep, DRAFT_MILLISECONDS)
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [changed, key, mode, store, manifest, name, description, workflow])
  // What the server refused was another drawing.
  useEffect(() => store.subscribe((now, before) => now.drawing !== before.drawing && setError(undefined)), [store])

  const restore = (found: Draft) => {
    setStart(drawn(found.document))
    setManifest(found.manifest)
    setName(found.name)
    setDescription(found.description)
    setMode(found.mode)
    if (found.workflow) draft?.restore(found.workflow)
    setOpened(true)
    setOffered(undefined)
  }
  const submit = useCallback(
    async (anyway = false) => {
      if (busy) return
      store.getState().reveal()
      setTried(true)
      if (missing) {
        store.getState().select([])
        setTimeout(() => globalThis.document.querySelector<HTMLElement>("[data-field='workflow.name']")?.focus())
        return
      }
      setBusy(true)
      setError(undefined)
      setNewer(undefined)
      try {
        const content = mode === "graph" ? { document: written(store.getState().drawing) } : { manifest }
        const stored = await save({ name, description, ...content }, anyway)
        removeDraft(localStorage, key)
        store.getState().markSaved()
        setDone(true)
        note(w("saved", { name: `${stored.workflow_name} ${stored.version.name}` }))
        setTimeout(() => saved(stored)) // after the guard knows that everything is saved
      } catch (thrown) {
        const found = asProblem(thrown).kind === "changed-meanwhile" ? await findNewer?.() : undefined
        if (found) setNewer(found)
        else setError(thrown)
      } finally {
        setBusy(false)
      }
    },
    [busy, missing, mode, store, manifest, name, description, key, save, saved, findNewer, w],
  )

  const fault = (field: string) => {
    if (tried && missing && field === "name") return missing
    if (!error) return undefined
    const problem = asProblem(error)
    return problem.of(field) ?? problem.of(`version.${field}`)
  }
  const basics = (
    <Section title={w("settings")} onInput={() => setError(undefined)}>
      {workflowFields?.(fault)}
      <Field
        label={w("versionName")}
        hint={w("versionNameHint")}
        error={workflowFields ? asVersionFault(error) : fault("name")}
        optional
      >
        {(field) => (
          <Input {...field} value={name} placeholder="v1" onChange={(event) => setName(event.target.value)} />
        )}
      </Field>
      <Field label={w("versionDescription")} optional>
        {(field) => (
          <TextArea {...field} rows={2} value={description} onChange={(event) => setDescription(event.target.value)} />
        )}
      </Field>
    </Section>
  )
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="flex flex-wrap items-center gap-3 border-b bg-card px-4 py-2">
        <div className="min-w-0">
          {above && <div className="text-xs text-muted-foreground">{above}</div>}
          <h1 className="truncate text-lg!">{title}</h1>
        </div>
        {changed && <Badge tone="warning">{w("unsaved")}</Badge>}
        <div className="ml-auto flex items-center gap-2">
          <Select
            aria-label={w("createType")}
            className="w-auto"
            value={mode}
            onChange={(event) => setMode(event.target.value as "graph" | "yaml")}
          >
            <option value="graph">{w("byCanvas")}</option>
            <option value="yaml">{w("byYaml")}</option>
          </Select>
          {tried && missing && (
            <p role="alert" className="text-[13px] text-destructive">
              {missing}
            </p>
          )}
          <Button look="primary" disabled={busy} onClick={() => void submit()}>
            <Save />
            {c("save")}
          </Button>
        </div>
      </header>
      {offered && (
        <div role="status" className="flex flex-wrap items-center gap-2 border-b bg-accent px-4 py-2">
          <p className="min-w-0 flex-1">
            {w("draftFound")} <Time at={new Date(offered.at).toISOString()} />
          </p>
          <Button size="small" look="primary" onClick={() => restore(offered)}>
            {w("restoreDraft")}
          </Button>
          <Button
            size="small"
            onClick={() => {
              removeDraft(localStorage, key)
              setOffered(undefined)
            }}
          >
            {w("discardDraft")}
          </Button>
        </div>
      )}
      {Boolean(error) && (
        <div className="border-b p-3">
          <ProblemView error={error} />
        </div>
      )}
      {mode === "graph" ? (
        <Editor
          key={start.drawing.nodes[0]?.key}
          store={store}
          basics={basics}
          onSave={() => void submit()}
          arrange={!start.placed}
        />
      ) : (
        <div className="flex min-h-0 flex-1 max-lg:flex-col max-lg:overflow-y-auto">
          <ManifestEditor
            text={manifest}
            change={setManifest}
            open={(found) => {
              setStart(drawn(found))
              setOpened(true)
              setMode("graph")
            }}
          />
          <aside
            aria-label={w("settings")}
            className="w-80 shrink-0 overflow-y-auto border-l bg-card max-lg:w-full max-lg:border-t max-lg:border-l-0"
          >
            {basics}
          </aside>
        </div>
      )}
      <LeaveGuard changed={changed} help={w("leaveWithDraft")} />
      <Dialog
        open={newer !== undefined}
        onClose={() => setNewer(undefined)}
        title={w("newerTitle")}
        actions={
          <>
            <Button onClick={() => setNewer(undefined)}>{c("cancel")}</Button>
            {newer?.compare}
            <Button look="primary" disabled={busy} onClick={() => void submit(true)}>
              {w("saveAnyway")}
            </Button>
          </>
        }
      >
        {newer && w("newerHelp", { name: newer.name, author: newer.author })}
      </Dialog>
    </div>
  )
}

function asVersionFault(error: unknown): string | undefined {
  return error ? asProblem(error).of("version.name") : undefined
}
