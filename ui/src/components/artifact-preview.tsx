/** A file that a node wrote, shown in a dialog. */
import { useQuery } from "@tanstack/react-query"
import { Eye } from "lucide-react"
import { useEffect, useState } from "react"
import { problemOf } from "@/api/problem"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { imageType, MOST_BYTES, MOST_IMAGE_BYTES, type Preview, previewOf } from "@/lib/artifact-preview"
import { Button } from "./button"
import { Dialog } from "./dialog"
import { Loading, ProblemView } from "./feedback"

interface Props {
  name: string
  /** The path of the file; its ending says what it is. */
  path: string
  /** Where it can be downloaded. */
  address: string
}

export function PreviewButton(props: Props) {
  const w = useTexts(runTexts)
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button
        size="icon"
        look="ghost"
        className="size-6"
        aria-label={`${w("preview")}: ${props.name}`}
        title={w("preview")}
        onClick={() => setOpen(true)}
      >
        <Eye />
      </Button>
      <Dialog open={open} onClose={() => setOpen(false)} title={props.path || props.name} wide>
        {open && <Content {...props} />}
      </Dialog>
    </>
  )
}

function Content({ path, address }: Props) {
  const w = useTexts(runTexts)
  const found = useQuery({
    queryKey: ["preview", address],
    queryFn: ({ signal }) => load(path, address, signal),
    retry: false,
    staleTime: 0,
    gcTime: 0,
  })
  if (found.error) return <ProblemView error={found.error} retry={() => void found.refetch()} />
  if (!found.data) return <Loading />
  const { preview, bytes } = found.data
  if (preview.kind === "folder") return <p className="text-muted-foreground">{w("previewFolder")}</p>
  if (preview.kind === "binary") return <p className="text-muted-foreground">{w("previewBinary")}</p>
  if (preview.kind === "image") return <Picture bytes={bytes} type={preview.type} alt={path} />
  return (
    <>
      {preview.kind === "table" ? (
        <Table rows={preview.rows} label={path} />
      ) : (
        <pre
          tabIndex={0}
          role="region"
          aria-label={path}
          className="max-h-[65vh] overflow-auto rounded bg-muted p-3 font-mono text-xs break-all whitespace-pre-wrap"
        >
          {preview.text}
        </pre>
      )}
      {preview.isCut && <p className="text-[13px] text-muted-foreground">{w("previewCut")}</p>}
    </>
  )
}

function Picture({ bytes, type, alt }: { bytes: Uint8Array<ArrayBuffer>; type: string; alt: string }) {
  const [source, setSource] = useState<string>()
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([bytes], { type }))
    setSource(made)
    return () => URL.revokeObjectURL(made)
  }, [bytes, type])
  return source && <img src={source} alt={alt} className="mx-auto max-h-[65vh] max-w-full rounded border bg-white" />
}

function Table({ rows, label }: { rows: string[][]; label: string }) {
  const [head = [], ...body] = rows
  return (
    <div tabIndex={0} role="region" aria-label={label} className="max-h-[65vh] overflow-auto rounded border">
      <table className="text-[13px]">
        <thead className="sticky top-0 bg-muted text-left">
          <tr>
            {head.map((cell, index) => (
              <th key={index} className="px-2 py-1 font-medium whitespace-nowrap">
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {body.map((row, index) => (
            <tr key={index} className="border-t">
              {row.map((cell, column) => (
                <td key={column} className="px-2 py-1 whitespace-nowrap tabular-nums">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

interface Loaded {
  preview: Preview
  bytes: Uint8Array<ArrayBuffer>
}

/** Loads the beginning of a file, which is all that a preview shows. */
async function load(path: string, address: string, signal: AbortSignal): Promise<Loaded> {
  const response = await fetch(address, { signal })
  if (!response.ok) throw await problemOf(response)
  const nothing = new Uint8Array()
  if (response.headers.get("content-type")?.startsWith("application/gzip")) {
    await response.body?.cancel()
    return { preview: { kind: "folder" }, bytes: nothing }
  }
  const most = imageType(path) ? MOST_IMAGE_BYTES : MOST_BYTES
  const pieces: Uint8Array[] = []
  let size = 0
  const reader = response.body?.getReader()
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    pieces.push(next.value)
    size += next.value.length
    if (size > most) {
      await reader?.cancel()
      break
    }
  }
  const bytes = new Uint8Array(Math.min(size, most))
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece.subarray(0, bytes.length - at), at)
    at += Math.min(piece.length, bytes.length - at)
  }
  return { preview: previewOf(path, bytes, size > most), bytes }
}
