/** Uploads of files to a volume: one after the other, each with its progress. */
import { CircleAlert, CircleCheck, X } from "lucide-react"
import { useCallback, useEffect, useRef, useState } from "react"
import { asProblem } from "@/api/problem"
import { pathIn, uploadFile, type VolumePlace } from "@/api/volumes"
import { Button } from "@/components/button"
import { Meter } from "@/components/meter"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { fileTexts } from "@/i18n/workspaces"
import { sizeText } from "@/lib/amounts"

export interface UploadItem {
  id: number
  file: File
  path: string
  state: "waiting" | "sending" | "done" | "exists" | "failed" | "cancelled"
  /** From 0 to 1. */
  part: number
  replace: boolean
  error?: unknown
}

export interface Uploads {
  items: UploadItem[]
  isBusy: boolean
  add: (folder: string, files: File[]) => void
  replace: (id: number) => void
  cancel: (id: number) => void
  clear: () => void
}

export function useUploads(place: VolumePlace): Uploads {
  const [items, setItems] = useState<UploadItem[]>([])
  const last = useRef(0)
  const sending = useRef<{ id: number; stop: AbortController }>(undefined)
  const change = useCallback(
    (id: number, changes: Partial<UploadItem>) =>
      setItems((before) => before.map((item) => (item.id === id ? { ...item, ...changes } : item))),
    [],
  )
  const next = items.find((item) => item.state === "waiting")
  const isSending = items.some((item) => item.state === "sending")
  useEffect(() => {
    if (!next || isSending || sending.current) return
    const { id, path, file, replace } = next
    const stop = new AbortController()
    const settle = (changes: Partial<UploadItem>) => {
      sending.current = undefined
      change(id, changes)
    }
    sending.current = { id, stop }
    change(id, { state: "sending", part: 0 })
    uploadFile(place, path, file, { replace, signal: stop.signal, progress: (part) => change(id, { part }) })
      .then(() => settle({ state: "done", part: 1 }))
      .catch((error: unknown) => {
        if (stop.signal.aborted) settle({ state: "cancelled" })
        else if (asProblem(error).code === "volume.exists") settle({ state: "exists" })
        else settle({ state: "failed", error })
      })
  }, [next, isSending, change, place])
  useEffect(() => () => sending.current?.stop.abort(), [])
  return {
    items,
    isBusy: items.some(({ state }) => state === "waiting" || state === "sending"),
    add: (folder, files) =>
      setItems((before) => [
        ...before,
        ...files.map(
          (file): UploadItem => ({
            id: ++last.current,
            file,
            path: pathIn(folder, file.name),
            state: "waiting",
            part: 0,
            replace: false,
          }),
        ),
      ]),
    replace: (id) => change(id, { state: "waiting", replace: true }),
    cancel: (id) => {
      if (sending.current?.id === id) sending.current.stop.abort()
      else change(id, { state: "cancelled" })
    },
    clear: () => setItems((before) => before.filter(({ state }) => state === "waiting" || state === "sending")),
  }
}

export function UploadList({ uploads }: { uploads: Uploads }) {
  const w = useTexts(fileTexts)
  if (uploads.items.length === 0) return null
  return (
    <section aria-label={w("uploads")} className="rounded-lg border bg-card p-3">
      <ul className="flex flex-col gap-2">
        {uploads.items.map((item) => (
          <UploadRow key={item.id} item={item} uploads={uploads} />
        ))}
      </ul>
      {!uploads.isBusy && (
        <Button size="small" className="mt-2" onClick={uploads.clear}>
          {w("clear")}
        </Button>
      )}
    </section>
  )
}

function UploadRow({ item, uploads }: { item: UploadItem; uploads: Uploads }) {
  const w = useTexts(fileTexts)
  const c = useTexts(commonTexts)
  const percent = Math.floor(item.part * 100)
  const running = item.state === "waiting" || item.state === "sending"
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 text-[13px]">
      <span className="min-w-0 flex-1 break-all">
        {item.file.name} <span className="text-muted-foreground">{sizeText(item.file.size)}</span>
      </span>
      {item.state === "sending" && (
        <Meter
          label={w("progressOf", { name: item.file.name })}
          value={item.part}
          max={1}
          text={w("uploading", { percent })}
          full="running"
          className="w-32"
        />
      )}
      <span role="status" className="flex items-center gap-1">
        {item.state === "done" && <CircleCheck aria-hidden className="size-4 text-success" />}
        {(item.state === "failed" || item.state === "exists") && (
          <CircleAlert aria-hidden className="size-4 text-destructive" />
        )}
        {item.state === "sending" && w("uploading", { percent })}
        {item.state === "waiting" && w("waiting")}
        {item.state === "done" && w("uploaded")}
        {item.state === "cancelled" && w("cancelled")}
        {item.state === "exists" && w("exists")}
        {item.state === "failed" && asProblem(item.error).said}
      </span>
      {item.state === "exists" && (
        <Button size="small" onClick={() => uploads.replace(item.id)}>
          {w("replace")}
        </Button>
      )}
      {running && (
        <Button look="ghost" size="icon" aria-label={c("cancel")} onClick={() => uploads.cancel(item.id)}>
          <X />
        </Button>
      )}
    </li>
  )
}
