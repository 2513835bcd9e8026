import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Clock } from "lucide-react"
import { imagesQuery, type Notebook, notebookQuery } from "@/api/workspaces"
import { TensorBoardButton } from "@/components/tensorboard-button"
import { TerminalButton } from "@/components/terminal-button"
import { Time } from "@/components/time"
import { useTexts } from "@/i18n/translate"
import { notebookTexts, workspaceTexts } from "@/i18n/workspaces"
import { resourceText } from "./list"
import { WorkspaceActions } from "./parts"
import { Card, WorkspacePage } from "./workspace-page"

const route = getRouteApi("/shell/notebooks/$namespace/$name")

export function NotebookPage() {
  const w = useTexts(notebookTexts)
  const place = route.useParams()
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  return (
    <WorkspacePage
      kind="notebooks"
      place={place}
      title={w("title")}
      found={useQuery(notebookQuery(place))}
      tab={tab}
      onTab={(tab) => void navigate({ search: { tab }, replace: true })}
      facts={({ last_activity: at }) =>
        at && (
          <span>
            {w("lastActivity")}: <Time at={at} />
          </span>
        )
      }
      actions={(notebook) => (
        <>
          {notebook.may.includes("open") && notebook.pod && (
            <TerminalButton place={{ namespace: notebook.namespace, pod: notebook.pod }} />
          )}
          <TensorBoardButton of={{ notebook: { ...place, path: "logs" } }} />
          <WorkspaceActions kind="notebooks" workspace={notebook} home={notebook.home} open />
        </>
      )}
      notice={(notebook) => <IdleNote notebook={notebook} />}
      overview={(notebook) => <Overview notebook={notebook} />}
    />
  )
}

/** Warns before an idle notebook is stopped, and says why it was. */
function IdleNote({ notebook }: { notebook: Notebook }) {
  const w = useTexts(notebookTexts)
  const warns = notebook.cull_at && notebook.state === "running"
  if (!warns && !(notebook.culled_at && notebook.state === "stopped")) return null
  return (
    <p role="status" className="flex items-center gap-2 rounded-md border border-warning/50 bg-warning/8 p-3">
      <Clock aria-hidden className="size-4 shrink-0 text-warning" />
      {warns ? w("cullWarning", { time: new Date(notebook.cull_at ?? "").toLocaleTimeString() }) : w("culled")}
    </p>
  )
}

function Overview({ notebook }: { notebook: Notebook }) {
  const w = useTexts(notebookTexts)
  const s = useTexts(workspaceTexts)
  const images = useQuery(imagesQuery).data
  const image = images?.find(({ name }) => name === notebook.image_name)
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      <Card title={w("image")}>
        <p className="font-medium">{image?.title ?? notebook.image}</p>
        {image && <p className="text-muted-foreground">{image.contents.join(" · ")}</p>}
        <p className="mt-1 font-mono text-[13px] break-all text-muted-foreground">{notebook.image}</p>
      </Card>
      <Card title={w("resources")}>
        <p>{resourceText(notebook)}</p>
        <p className="text-muted-foreground">
          {w("idle")}: {idleText(notebook.cull_idle_minutes, w)}
        </p>
        {notebook.ready_since && (
          <p className="text-muted-foreground">
            {s("runningSince")}: <Time at={notebook.ready_since} />
          </p>
        )}
      </Card>
      <Card title={w("mounts")}>
        {notebook.mounts.length === 0 ? (
          <p className="text-muted-foreground">{w("noMounts")}</p>
        ) : (
          <ul className="flex flex-col gap-1">
            {notebook.mounts.map((mount) => (
              <li key={mount.path} className="break-all">
                <code className="font-mono text-[13px]">{mount.path}</code>{" "}
                <span className="text-muted-foreground">
                  {mount.claim ? (
                    <Link
                      to="/volumes/$namespace/$name"
                      params={{ namespace: notebook.namespace, name: mount.claim }}
                      search={mount.sub_path ? { path: mount.sub_path } : {}}
                      className="text-primary underline"
                    >
                      {mount.claim}
                    </Link>
                  ) : (
                    mount.folder
                  )}
                  {mount.read_only && ` · ${w("readOnly")}`}
                </span>
              </li>
            ))}
          </ul>
        )}
      </Card>
    </div>
  )
}

export function idleText(
  minutes: number,
  w: (word: "idleNever" | "idleMinutes", values?: { n: number }) => string,
): string {
  return minutes ? w("idleMinutes", { n: Math.round(minutes) }) : w("idleNever")
}
