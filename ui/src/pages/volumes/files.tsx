/** The files of a volume: folders to open, and what can be done with files. */
import { useInfiniteQuery } from "@tanstack/react-query"
import {
  Download,
  File as FileIcon,
  FileQuestion,
  Folder,
  FolderPlus,
  Link2,
  Pencil,
  Trash2,
  Upload,
} from "lucide-react"
import { type DragEvent, useMemo, useRef, useState } from "react"
import {
  createFolder,
  deleteFile,
  downloadLink,
  filesQuery,
  pathIn,
  renameFile,
  trailOf,
  type VolumeEntry,
  type VolumePlace,
} from "@/api/volumes"
import { Actions } from "@/components/actions"
import { Button } from "@/components/button"
import { actionsColumn, type Column, DataTable } from "@/components/data-table"
import { FormDialog, LeaveGuard, text } from "@/components/dialog"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Field, Input } from "@/components/form"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { fileTexts } from "@/i18n/workspaces"
import { sizeText } from "@/lib/amounts"
import { classes } from "@/lib/classes"
import { UploadList, useUploads } from "./uploads"

interface Props {
  place: VolumePlace
  /** The folder that is shown; '' is the volume itself. */
  path: string
  canWrite: boolean
  open: (path: string) => void
}

const ICONS: Record<VolumeEntry["kind"], typeof FileIcon> = {
  file: FileIcon,
  folder: Folder,
  link: Link2,
  other: FileQuestion,
}

export function FileBrowser({ place, path, canWrite, open }: Props) {
  const w = useTexts(fileTexts)
  const c = useTexts(commonTexts)
  const found = useInfiniteQuery(filesQuery(place, path))
  const uploads = useUploads(place)
  const [making, setMaking] = useState(false)
  const [renaming, setRenaming] = useState<VolumeEntry>()
  const [dragged, setDragged] = useState(false)
  const chooser = useRef<HTMLInputElement>(null)
  const pages = found.data?.pages
  const entries = useMemo(() => pages?.flatMap((page) => page.items) ?? [], [pages])
  const columns = useMemo(
    (): Column<VolumeEntry>[] => [
      { id: "name", header: c("name"), cell: (entry) => <Name entry={entry} place={place} open={open} /> },
      {
        id: "size",
        header: w("size"),
        className: "w-28 text-right whitespace-nowrap",
        cell: (entry) => (entry.kind === "file" ? sizeText(entry.size) : ""),
      },
      {
        id: "modified",
        header: w("modified"),
        className: "hidden w-40 whitespace-nowrap sm:table-cell",
        cell: (entry) => <Time at={entry.modified} />,
      },
      actionsColumn(c("actions"), (entry) => (
        <EntryActions entry={entry} place={place} canWrite={canWrite} rename={() => setRenaming(entry)} />
      )),
    ],
    [w, c, place, open, canWrite],
  )
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setDragged(false)
    if (canWrite) uploads.add(path, [...event.dataTransfer.files])
  }
  const last = pages?.at(-1)
  return (
    <section
      aria-label={w("files")}
      className={classes("flex flex-col gap-3 rounded-lg", dragged && "outline-2 outline-offset-4 outline-primary")}
      onDragOver={(event) => {
        if (!canWrite || !event.dataTransfer.types.includes("Files")) return
        event.preventDefault()
        setDragged(true)
      }}
      onDragLeave={(event) => event.currentTarget.contains(event.relatedTarget as Node | null) || setDragged(false)}
      onDrop={drop}
    >
      <div className="flex flex-wrap items-center justify-between gap-2">
        <Trail place={place} path={path} open={open} />
        <div className="flex flex-wrap gap-2">
          {entries.length > 0 && (
            <Button asChild>
              <a href={downloadLink(place, { kind: "folder", path })} download>
                <Download />
                {w("downloadAll")}
              </a>
            </Button>
          )}
          {canWrite && (
            <>
              <Button onClick={() => setMaking(true)}>
                <FolderPlus />
                {w("newFolder")}
              </Button>
              <Button look="primary" onClick={() => chooser.current?.click()}>
                <Upload />
                {w("upload")}
              </Button>
              <input
                ref={chooser}
                type="file"
                multiple
                hidden
                aria-label={w("upload")}
                onChange={(event) => {
                  uploads.add(path, [...(event.target.files ?? [])])
                  event.target.value = "" // the same file may be chosen again
                }}
              />
            </>
          )}
        </div>
      </div>
      <UploadList uploads={uploads} />
      <LeaveGuard changed={uploads.isBusy} help={w("leaveHelp")} />
      {found.error ? (
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      ) : found.isPending ? (
        <Loading />
      ) : entries.length === 0 ? (
        <Empty icon={Folder} title={dragged ? w("dropNow") : w("emptyFolder")}>
          {canWrite && w("dropHelp")}
        </Empty>
      ) : (
        <>
          <DataTable label={w("files")} columns={columns} rows={entries} rowId={(entry) => entry.path} />
          {found.hasNextPage && (
            <Button
              className="self-center"
              disabled={found.isFetchingNextPage}
              onClick={() => void found.fetchNextPage()}
            >
              {w("more")}
            </Button>
          )}
          {last && !last.complete && (
            <p className="text-[13px] text-muted-foreground">{w("tooMany", { count: last.total })}</p>
          )}
        </>
      )}
      {making && <NewFolder place={place} path={path} close={() => setMaking(false)} />}
      {renaming && <Rename place={place} path={path} entry={renaming} close={() => setRenaming(undefined)} />}
    </section>
  )
}

function Trail({ place, path, open }: { place: VolumePlace; path: string; open: (path: string) => void }) {
  const w = useTexts(fileTexts)
  const steps = [{ name: place.name, path: "" }, ...trailOf(path)]
  return (
    <nav aria-label={w("path")} className="flex min-w-0 flex-wrap items-center gap-1 text-[13px]">
      {steps.map((step, index) => (
        <span key={step.path} className="flex min-w-0 items-center gap-1">
          {index > 0 && <span className="text-muted-foreground">/</span>}
          {index === steps.length - 1 ? (
            <span aria-current="page" className="font-medium break-all">
              {step.name}
            </span>
          ) : (
            <button type="button" className="break-all text-primary hover:underline" onClick={() => open(step.path)}>
              {step.name}
            </button>
          )}
        </span>
      ))}
    </nav>
  )
}

function Name({ entry, place, open }: { entry: VolumeEntry; place: VolumePlace; open: (path: string) => void }) {
  const w = useTexts(fileTexts)
  const Icon = ICONS[entry.kind]
  const look = "min-w-0 text-left break-all"
  return (
    <div className="flex min-w-40 items-center gap-2">
      <Icon aria-label={w(entry.kind)} className="size-4 shrink-0 text-muted-foreground" />
      {entry.kind === "folder" ? (
        <button type="button" className={`${look} text-primary hover:underline`} onClick={() => open(entry.path)}>
          {entry.name}
        </button>
      ) : entry.kind === "file" ? (
        <a className={`${look} text-primary hover:underline`} href={downloadLink(place, entry)} download>
          {entry.name}
        </a>
      ) : (
        <span className={look} title={entry.kind === "link" ? w("linkHelp") : undefined}>
          {entry.name}
        </span>
      )}
    </div>
  )
}

interface EntryProps {
  entry: VolumeEntry
  place: VolumePlace
  canWrite: boolean
  rename: () => void
}

function EntryActions({ entry, place, canWrite, rename }: EntryProps) {
  const w = useTexts(fileTexts)
  const c = useTexts(commonTexts)
  const { name, kind, path } = entry
  const readable = kind === "file" || kind === "folder"
  return (
    <Actions
      name={name}
      actions={[
        readable
          ? {
              label: kind === "folder" ? w("downloadAll") : c("download"),
              icon: <Download />,
              run: () => location.assign(downloadLink(place, entry)),
            }
          : undefined,
        canWrite ? { label: w("rename"), icon: <Pencil />, run: rename } : undefined,
        canWrite
          ? {
              label: w("delete"),
              icon: <Trash2 />,
              danger: true,
              confirm: {
                title: w("deleteTitle", { name }),
                lead: w(kind === "folder" ? "deleteFolderHelp" : "deleteFileHelp"),
              },
              run: async () => {
                await deleteFile(place, path)
                note(w("deleted", { name }))
              },
            }
          : undefined,
      ]}
    />
  )
}

function NewFolder({ place, path, close }: { place: VolumePlace; path: string; close: () => void }) {
  const w = useTexts(fileTexts)
  const c = useTexts(commonTexts)
  return (
    <FormDialog
      title={w("newFolder")}
      action={c("create")}
      fields={["path"]}
      onClose={close}
      onSubmit={async (form) => {
        await createFolder(place, pathIn(path, text(form, "path")))
        close()
      }}
    >
      {(fault) => (
        <Field label={w("folderName")} error={fault("path")}>
          {(field) => <Input {...field} name="path" required autoFocus autoComplete="off" spellCheck={false} />}
        </Field>
      )}
    </FormDialog>
  )
}

interface RenameProps {
  place: VolumePlace
  path: string
  entry: VolumeEntry
  close: () => void
}

function Rename({ place, path, entry, close }: RenameProps) {
  const w = useTexts(fileTexts)
  return (
    <FormDialog
      title={w("renameTitle", { name: entry.name })}
      action={w("rename")}
      fields={["to"]}
      onClose={close}
      onSubmit={async (form) => {
        const name = text(form, "to")
        await renameFile(place, entry.path, name.startsWith("/") ? pathIn("", name) : pathIn(path, name))
        close()
      }}
    >
      {(fault) => (
        <Field label={w("newName")} hint={w("newNameHint")} error={fault("to")}>
          {(field) => (
            <Input
              {...field}
              name="to"
              required
              autoFocus
              autoComplete="off"
              spellCheck={false}
              defaultValue={entry.name}
            />
          )}
        </Field>
      )}
    </FormDialog>
  )
}
