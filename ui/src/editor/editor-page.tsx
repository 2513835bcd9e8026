/** The page that edits a version: on the canvas, or as a manifest. */
import { Save } from "lucide-react"
import { type ReactNode, useCallback, useMemo, useState } from "react"
import { useStore } from "zustand"
import { asProblem } from "@/api/problem"
import type { Stored, VersionText } from "@/api/workflows"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { LeaveGuard } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Field, Input, Select, TextArea } from "@/components/form"
import { useTitle } from "@/components/page"
import { note } from "@/components/toasts"
import { EMPTY, type GraphDocument, isGraph } from "@/graph/document"
import { drawn, written } from "@/graph/drawing"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { Editor } from "./editor"
import { Section } from "./form-parts"
import { ManifestEditor } from "./manifest-editor"
import { isChanged, newCanvas } from "./store"

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
  save: (version: VersionText) => Promise<Stored>
  saved: (stored: Stored) => void
}

export function EditorPage({
  title,
  above,
  document = EMPTY,
  type,
  workflowFields,
  touched,
  missing,
  save,
  saved,
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

  const canvasChanged = useStore(store, isChanged)
  const changed =
    !done &&
    (canvasChanged ||
      opened ||
      Boolean(touched) ||
      manifest !== (document.manifest ?? "") ||
      name !== "" ||
      description !== "")

  const submit = useCallback(async () => {
    if (busy || missing) return
    setBusy(true)
    setError(undefined)
    try {
      const content = mode === "graph" ? { document: written(store.getState().drawing) } : { manifest }
      const stored = await save({ name, description, ...content })
      store.getState().markSaved()
      setDone(true)
      note(w("saved", { name: `${stored.workflow_name} ${stored.version.name}` }))
      setTimeout(() => saved(stored)) // after the guard knows that everything is saved
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }, [busy, missing, mode, store, manifest, name, description, save, saved, w])

  const fault = (field: string) => {
    if (!error) return undefined
    const problem = asProblem(error)
    return problem.of(field) ?? problem.of(`version.${field}`)
  }
  const basics = (
    <Section title={w("settings")}>
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
          <Button look="primary" disabled={busy || Boolean(missing)} title={missing} onClick={() => void submit()}>
            <Save />
            {c("save")}
          </Button>
        </div>
      </header>
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
        <div className="flex min-h-0 flex-1">
          <ManifestEditor
            text={manifest}
            change={setManifest}
            open={(found) => {
              setStart(drawn(found))
              setOpened(true)
              setMode("graph")
            }}
          />
          <aside aria-label={w("settings")} className="w-80 shrink-0 overflow-y-auto border-l bg-card">
            {basics}
          </aside>
        </div>
      )}
      <LeaveGuard changed={changed} />
    </div>
  )
}

function asVersionFault(error: unknown): string | undefined {
  return error ? asProblem(error).of("version.name") : undefined
}
