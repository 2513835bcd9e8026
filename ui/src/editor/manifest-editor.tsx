/** A version from an Argo Workflow: pasted, dropped or chosen as a file, and checked while it is typed. */

import { type DragEvent, useEffect, useState } from "react"
import { type GraphFinding, importManifest } from "@/api/workflows"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { ProblemView } from "@/components/feedback"
import { ManifestFileButton } from "@/components/file-button"
import { Code, Field } from "@/components/form"
import { noteError } from "@/components/toasts"
import { type GraphDocument, isGraph } from "@/graph/document"
import { editorTexts } from "@/i18n/editor"
import { serverMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"

interface Props {
  text: string
  change: (text: string) => void
  /** Called when the user opens the converted graph on the canvas. */
  open: (document: GraphDocument) => void
}

interface Found {
  document: GraphDocument | null
  problems: GraphFinding[]
}

export function ManifestEditor({ text, change, open }: Props) {
  const w = useTexts(editorTexts)
  const language = usePreferences((all) => all.language)
  const [found, setFound] = useState<Found>()
  const [failed, setFailed] = useState<unknown>()

  useEffect(() => {
    if (!text.trim()) return setFound(undefined)
    const asked = new AbortController()
    const timer = setTimeout(() => {
      importManifest(text, asked.signal)
        .then((answer) => {
          setFound({ document: answer.document as GraphDocument | null, problems: answer.problems })
          setFailed(undefined)
        })
        .catch((error: unknown) => !asked.signal.aborted && setFailed(error))
    }, 350)
    return () => {
      clearTimeout(timer)
      asked.abort()
    }
  }, [text])

  const take = (file: File | undefined) => {
    file?.text().then(change).catch(noteError)
  }
  const drop = (event: DragEvent) => {
    const file = event.dataTransfer.files[0]
    if (!file) return
    event.preventDefault()
    take(file)
  }
  const drawn = found?.document && isGraph(found.document) ? found.document : undefined
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: files and nodes can also be added with buttons.
    <div
      className="flex min-h-0 flex-1 gap-4 p-4 max-xl:flex-col max-lg:flex-none"
      onDragOver={(event) => event.preventDefault()}
      onDrop={drop}
    >
      <Field label={w("yamlLabel")} hint={w("yamlHint")} className="min-h-72 flex-2">
        {(field) => (
          <Code
            {...field}
            className="min-h-0 flex-1 resize-none"
            value={text}
            onChange={(event) => change(event.target.value)}
          />
        )}
      </Field>
      <div className="flex min-w-72 flex-1 flex-col gap-3 overflow-y-auto">
        <ManifestFileButton label={w("chooseFile")} take={take} />
        <ProblemView error={failed} />
        {found && (
          <div role="status" className="flex flex-col gap-2">
            {drawn ? (
              <>
                <p>{w("becomesGraph", { n: drawn.nodes?.length ?? 0 })}</p>
                <Button look="primary" className="self-start" onClick={() => open(drawn)}>
                  {w("openOnCanvas")}
                </Button>
              </>
            ) : (
              found.document && <p>{w("staysYaml")}</p>
            )}
            <ul className="flex flex-col gap-1.5">
              {found.problems.map((problem, index) => (
                <li
                  key={index}
                  className={
                    problem.severity === "error" ? "text-[13px] text-destructive" : "text-[13px] text-muted-foreground"
                  }
                >
                  <pre className="font-sans whitespace-pre-wrap">{serverMessage(problem, language)}</pre>
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
    </div>
  )
}
