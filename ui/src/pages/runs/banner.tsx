/** Why a run failed, or who stopped it. */
import { useQuery } from "@tanstack/react-query"
import { CircleX, ScrollText } from "lucide-react"
import { lastLinesQuery, type RunDetail, runNodeQuery } from "@/api/runs"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { runTexts } from "@/i18n/runs"
import { statusMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { failedNode } from "@/lib/run-nodes"

interface Props {
  run: RunDetail
  /** Whether the user may see logs. */
  inspects: boolean
  openLog: (node: string) => void
}

export function RunBanner({ run, inspects, openLog }: Props) {
  const language = usePreferences((all) => all.language)
  if (!run.message || (run.state !== "failed" && run.state !== "stopped")) return null
  const message = statusMessage(run, language)
  if (run.state === "stopped") return <p className="rounded-md border bg-muted/60 px-3 py-2 break-words">{message}</p>
  const node = failedNode(run.node_states)
  return (
    <section className="flex flex-col gap-2 rounded-md border border-failed/40 bg-failed/8 px-3 py-2">
      {node && inspects ? (
        <FailedNode run={run.id} node={node.name} openLog={openLog} />
      ) : (
        <p className="break-words">{message}</p>
      )}
    </section>
  )
}

/** The last line says most. */
function showEnd(element: HTMLElement | null): void {
  if (element) element.scrollTop = element.scrollHeight
}

/** The node that failed first, with its exit code and the last lines of its log. */
function FailedNode({ run, node, openLog }: { run: string; node: string; openLog: (node: string) => void }) {
  const w = useTexts(runTexts)
  const language = usePreferences((all) => all.language)
  const found = useQuery(runNodeQuery(run, node))
  const attempt = found.data?.attempt_list.at(-1)
  const lines = useQuery({ ...lastLinesQuery(run, node, attempt?.number ?? 0), enabled: Boolean(attempt) })
  const told = attempt?.message ? attempt : found.data
  // The title has the exit code already.
  const more = told?.message_parts.some(({ code }) => code !== "about" && code !== "status.error-exit")
  const said = told && more && statusMessage(told, language)
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <p className="flex min-w-0 flex-1 items-center gap-2 font-medium">
          <CircleX aria-hidden className="size-4 shrink-0 text-failed" />
          <span className="min-w-0 break-words">
            {attempt?.exit_code
              ? w("failedWithCode", { node, code: attempt.exit_code })
              : w("failedWithoutCode", { node })}
          </span>
        </p>
        <Button size="small" onClick={() => openLog(node)}>
          <ScrollText />
          {w("openLog")}
        </Button>
      </div>
      {said && <p className="text-[13px] break-words text-muted-foreground">{said}</p>}
      {lines.data && (
        <pre
          ref={showEnd}
          tabIndex={0}
          role="region"
          aria-label={w("lastLines")}
          className="max-h-36 overflow-auto rounded bg-background px-2 py-1 font-mono text-xs break-all whitespace-pre-wrap"
        >
          {lines.data}
        </pre>
      )}
    </>
  )
}
