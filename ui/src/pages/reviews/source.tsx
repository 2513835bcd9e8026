/** The source of the version under review: its files, their text, and what has changed since the published version. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { FileCode, FileDigit, FileSymlink } from "lucide-react"
import { useState } from "react"
import { api, data, type Schema } from "@/api/client"
import { failure } from "@/api/problem"
import { Badge, type Tone } from "@/components/badge"
import { CodeView } from "@/components/code"
import { Loading, ProblemView } from "@/components/feedback"
import { Segments } from "@/components/filters"
import { Tick } from "@/components/form"
import { LineDiff } from "@/components/line-diff"
import { sourceTexts } from "@/i18n/source"
import { useTexts } from "@/i18n/translate"
import { sizeText } from "@/lib/amounts"
import { classes } from "@/lib/classes"

type Entry = Schema<"SourceEntry">

const TONES: Record<Entry["change"], Tone> = {
  added: "succeeded",
  removed: "failed",
  changed: "warning",
  same: "plain",
}
const ICONS = { text: FileCode, large: FileCode, binary: FileDigit, link: FileSymlink }

const listingQuery = (module: string, version: string, against: string) =>
  queryOptions({
    queryKey: ["modules", module, "versions", "one", version, "source", against],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/modules/{module}/versions/{version}/source", {
          params: { path: { module, version }, query: against ? { against } : {} },
          signal,
        })
        .then(data),
  })

const fileQuery = (module: string, version: string, path: string) =>
  queryOptions({
    queryKey: ["modules", module, "versions", "one", version, "source file", path],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/modules/{module}/versions/{version}/source/file", {
          params: { path: { module, version }, query: { path } },
          signal,
        })
        .then(data),
    staleTime: Number.POSITIVE_INFINITY, // a version never changes once it is built
  })

interface Props {
  module: string
  version: number
  /** The published version, if there is one. */
  against: number | undefined
  selected: string | undefined
  select: (path: string) => void
}

export function Source({ module, version, against, selected, select }: Props) {
  const w = useTexts(sourceTexts)
  const found = useQuery(listingQuery(module, String(version), against === undefined ? "" : String(against)))
  const [onlyChanged, setOnlyChanged] = useState(true)
  if (failure(found)) return <ProblemView error={found.error} retry={() => void found.refetch()} />
  if (!found.data) return <Loading />
  const { stored, compared, files, left_out } = found.data
  if (!stored) return <p className="text-muted-foreground">{w("notStored")}</p>
  const changed = files.filter((file) => file.change !== "same")
  const shown = compared && onlyChanged ? changed : files
  const [first, ...others] = compared ? changed : files
  // The only file that there is to review is open from the start.
  const entry = files.find((file) => file.path === selected) ?? (others.length ? undefined : first)
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-muted-foreground">
        {against !== undefined && <p>{w(compared ? "comparedWith" : "notCompared", { n: against })}</p>}
        {compared && (
          <Tick
            label={w("onlyChanged", { n: changed.length })}
            checked={onlyChanged}
            onChange={(event) => setOnlyChanged(event.target.checked)}
          />
        )}
      </div>
      <div className="grid gap-3 xl:grid-cols-[16rem_minmax(0,1fr)]">
        <nav
          aria-label={w("files")}
          tabIndex={0}
          className="max-h-[32rem] overflow-y-auto rounded-lg border bg-card p-1 max-xl:max-h-60"
        >
          {!shown.length && <p className="p-2 text-muted-foreground">{w("none")}</p>}
          <ul>
            {shown.map((file) => (
              <li key={file.path}>
                <FileButton file={file} selected={file === entry} select={() => select(file.path)} />
              </li>
            ))}
          </ul>
          {left_out > 0 && <p className="p-2 text-[13px] text-muted-foreground">{w("leftOut", { n: left_out })}</p>}
        </nav>
        <section aria-label={w("title")} className="min-w-0">
          {entry ? (
            <FileText
              key={entry.path}
              module={module}
              version={String(version)}
              against={compared ? String(against) : undefined}
              entry={entry}
            />
          ) : (
            <p className="p-2 text-muted-foreground">{w("choose")}</p>
          )}
        </section>
      </div>
    </div>
  )
}

function FileButton({ file, selected, select }: { file: Entry; selected: boolean; select: () => void }) {
  const w = useTexts(sourceTexts)
  const Icon = ICONS[file.kind]
  const at = file.path.lastIndexOf("/") + 1
  return (
    <button
      type="button"
      aria-current={selected || undefined}
      title={file.path}
      onClick={select}
      className={classes(
        "flex w-full items-center gap-2 rounded px-2 py-1 text-left text-[13px] hover:bg-muted",
        selected && "bg-accent",
      )}
    >
      <Icon aria-hidden className="size-4 shrink-0 text-muted-foreground" />
      <span className="min-w-0 flex-1 font-mono text-xs break-all">
        <span className="text-muted-foreground">{file.path.slice(0, at)}</span>
        {file.path.slice(at)}
      </span>
      {file.change !== "same" && <Badge tone={TONES[file.change]}>{w(file.change)}</Badge>}
    </button>
  )
}

interface FileProps {
  module: string
  version: string
  against: string | undefined
  entry: Entry
}

function FileText({ module, version, against, entry }: FileProps) {
  const w = useTexts(sourceTexts)
  const isChanged = entry.change === "changed" || entry.change === "removed"
  const [view, setView] = useState<"diff" | "whole">(isChanged ? "diff" : "whole")
  const wasThere = against !== undefined && isChanged
  const now = useQuery({ ...fileQuery(module, version, entry.path), enabled: entry.change !== "removed" })
  const before = useQuery({ ...fileQuery(module, against ?? "", entry.path), enabled: wasThere })
  const error = now.error ?? before.error
  if (error) return <ProblemView error={error} />
  if ((entry.change !== "removed" && !now.data) || (wasThere && !before.data)) return <Loading />
  const file = now.data ?? before.data
  const text = file?.text
  return (
    <div className="flex flex-col overflow-hidden rounded-lg border bg-card">
      <div className="flex flex-wrap items-center gap-3 px-3 py-2">
        <h2 className="min-w-0 flex-1 font-mono text-[13px] font-medium break-all">{entry.path}</h2>
        <span className="text-[13px] text-muted-foreground">{sizeText(entry.size)}</span>
        {entry.change === "changed" && entry.kind === "text" && (
          <Segments
            label={w("view")}
            choices={[
              { value: "diff", label: w("diff") },
              { value: "whole", label: w("whole") },
            ]}
            value={view}
            onChange={setView}
          />
        )}
      </div>
      {entry.kind === "binary" || entry.kind === "large" ? (
        <p className="border-t p-3 text-muted-foreground">{w(entry.kind)}</p>
      ) : entry.kind === "link" ? (
        <p className="border-t p-3 text-muted-foreground">{w("link", { target: text ?? "" })}</p>
      ) : view === "diff" && isChanged ? (
        <LineDiff before={before.data?.text ?? ""} after={entry.change === "removed" ? "" : (text ?? "")} />
      ) : (
        <CodeView label={entry.path} text={text ?? ""} className="rounded-none border-0 border-t" />
      )}
    </div>
  )
}
