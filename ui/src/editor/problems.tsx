/** The problems of the graph: the server checks it while it is drawn, and a list shows what it found. */

import { CircleAlert, CircleCheck, CircleDashed, LoaderCircle, TriangleAlert } from "lucide-react"
import { useEffect, useState } from "react"
import { checkGraph } from "@/api/workflows"
import { usePreferences } from "@/app/preferences"
import { placeOf, written } from "@/graph/drawing"
import { editorTexts } from "@/i18n/editor"
import { serverMessageParts } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { type CanvasStore, isToDo, useCanvas } from "./store"

const QUIET_MILLISECONDS = 350

/** Checks the graph after each pause. Returns the error if the check failed. */
export function useGraphCheck(store: CanvasStore): unknown {
  const [failed, setFailed] = useState<unknown>()
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let asked: AbortController | undefined
    const check = async () => {
      asked?.abort()
      const mine = new AbortController()
      asked = mine
      const { drawing } = store.getState()
      if (!drawing.nodes.length && !drawing.parameters.length) {
        store.setState({ problems: [], checking: false })
        return
      }
      store.setState({ checking: true })
      try {
        const problems = await checkGraph(written(drawing), mine.signal)
        store.setState({ problems, checking: false })
        setFailed(undefined)
      } catch (error) {
        if (mine.signal.aborted) return
        store.setState({ checking: false })
        setFailed(error)
      }
    }
    const later = () => {
      clearTimeout(timer)
      timer = setTimeout(check, QUIET_MILLISECONDS)
    }
    void check()
    const stop = store.subscribe((now, before) => {
      if (now.drawing !== before.drawing) later()
    })
    return () => {
      stop()
      clearTimeout(timer)
      asked?.abort()
    }
  }, [store])
  return failed
}

/** The problems of the graph. A click leads to the field. */
export function ProblemList({ failed }: { failed: unknown }) {
  const w = useTexts(editorTexts)
  const language = usePreferences((all) => all.language)
  const canvas = useCanvas((canvas) => canvas)
  const { drawing, problems, checking, go } = canvas
  const toDo = new Set(problems.filter((problem) => isToDo(canvas, problem)))
  const errors = problems.filter((problem) => problem.severity === "error").length - toDo.size
  const warnings = problems.length - errors - toDo.size
  return (
    <section aria-label={w("problems")} className="flex max-h-44 shrink-0 flex-col border-t bg-card">
      <div role="status" className="flex items-center gap-3 px-3 py-1.5 text-[13px]">
        <h2 className="text-[13px]!">{w("problems")}</h2>
        {failed ? (
          <span className="text-destructive">{w("checkFailed")}</span>
        ) : problems.length === 0 && !checking ? (
          <span className="inline-flex items-center gap-1 text-success">
            <CircleCheck aria-hidden className="size-4" />
            {w("noProblems")}
          </span>
        ) : (
          <>
            {toDo.size > 0 && <span className="text-muted-foreground">{w("toDo", { n: toDo.size })}</span>}
            {errors > 0 && <span className="text-destructive">{w("errors", { n: errors })}</span>}
            {warnings > 0 && <span className="text-warning">{w("warnings", { n: warnings })}</span>}
          </>
        )}
        {checking && (
          <span className="inline-flex items-center gap-1 text-muted-foreground">
            <LoaderCircle aria-hidden className="size-3.5 animate-spin" />
            {w("checking")}
          </span>
        )}
      </div>
      {problems.length > 0 && (
        <ul className="overflow-y-auto px-1.5 pb-1.5">
          {problems.map((problem, index) => {
            const { key, field } = placeOf(drawing, problem.path)
            const node = drawing.nodes.find((each) => each.key === key)
            const { message, fix } = serverMessageParts(problem, language)
            return (
              <li key={index}>
                <button
                  type="button"
                  onClick={() => go(key, field)}
                  className="flex w-full items-start gap-2 rounded px-1.5 py-1 text-left text-[13px] hover:bg-muted"
                >
                  {toDo.has(problem) ? (
                    <CircleDashed aria-label={w("toFillIn")} className="mt-0.5 size-4 shrink-0 text-muted-foreground" />
                  ) : problem.severity === "error" ? (
                    <CircleAlert aria-label={w("error")} className="mt-0.5 size-4 shrink-0 text-destructive" />
                  ) : (
                    <TriangleAlert aria-label={w("warning")} className="mt-0.5 size-4 shrink-0 text-warning" />
                  )}
                  <span className="w-32 shrink-0 truncate font-medium">{node?.name || w("wholeGraph")}</span>
                  <span className="min-w-0 flex-1">
                    {message}
                    {fix && <span className="text-muted-foreground"> – {fix}</span>}
                  </span>
                </button>
              </li>
            )
          })}
        </ul>
      )}
    </section>
  )
}
