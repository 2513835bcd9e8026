import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Clock } from "lucide-react"
import type { ReactNode } from "react"
import {
  imagesQuery,
  type Notebook,
  notebookQuery,
  useLiveWorkspace,
  type WorkspaceKind,
  type WorkspacePlace,
  workspaceEventsQuery,
  workspaceLog,
} from "@/api/workspaces"
import { DetailPage, Facts } from "@/components/detail-page"
import { EventList } from "@/components/event-list"
import { Loading, ProblemView } from "@/components/feedback"
import { LogView } from "@/components/log-view"
import { Owner } from "@/components/owner"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { TensorBoardButton } from "@/components/tensorboard-button"
import { TerminalButton } from "@/components/terminal-button"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { notebookTexts, workspaceTexts } from "@/i18n/workspaces"
import { resourceText } from "./list"
import { OpenButton, WorkspaceActions, WorkspaceBanner, WorkspaceStateBadge } from "./parts"

const route = getRouteApi("/shell/notebooks/$namespace/$name")

export function NotebookPage() {
  const w = useTexts(notebookTexts)
  const s = useTexts(workspaceTexts)
  const c = useTexts(commonTexts)
  const place = route.useParams()
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(notebookQuery(place))
  const gone = useLiveWorkspace("notebooks", place)
  return (
    <DetailPage
      name={place.name}
      list={{ to: "/notebooks", title: w("title") }}
      found={found}
      deleted={gone && s("wasDeleted")}
    >
      {(notebook, back) => {
        const tabs = [
          { id: "overview", label: s("overview"), content: <Overview notebook={notebook} /> },
          { id: "events", label: s("events"), content: <WorkspaceEvents kind="notebooks" place={place} /> },
          {
            id: "log",
            label: s("log"),
            content: <WorkspaceLog kind="notebooks" place={place} over={notebook.state === "stopped"} />,
          },
        ]
        return (
          <Page
            wide
            title={notebook.name}
            aside={<WorkspaceStateBadge state={notebook.state} />}
            above={back}
            lead={
              <Facts>
                <span>
                  {s("namespace")}: {notebook.namespace}
                </span>
                <span>
                  {c("owner")}: <Owner of={notebook} />
                </span>
                <span>
                  {c("created")}: <Time at={notebook.created} />
                </span>
                {notebook.last_activity && (
                  <span>
                    {w("lastActivity")}: <Time at={notebook.last_activity} />
                  </span>
                )}
              </Facts>
            }
            actions={
              <>
                <OpenButton workspace={notebook} />
                {notebook.may.includes("open") && notebook.pod && (
                  <TerminalButton place={{ namespace: notebook.namespace, pod: notebook.pod }} />
                )}
                <TensorBoardButton of={{ notebook: { ...place, path: "logs" } }} />
                <WorkspaceActions kind="notebooks" workspace={notebook} home={notebook.home} open />
              </>
            }
          >
            <WorkspaceBanner workspace={notebook} />
            <IdleNote notebook={notebook} />
            <Tabs
              tabs={tabs}
              value={tab}
              onChange={(tab) => void navigate({ search: { tab }, replace: true })}
              inside="pt-4"
            />
          </Page>
        )
      }}
    </DetailPage>
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

export function Card({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="rounded-lg border bg-card p-4">
      <h2 className="mb-1 text-sm font-medium text-muted-foreground">{title}</h2>
      {children}
    </section>
  )
}

export function WorkspaceEvents({ kind, place }: { kind: WorkspaceKind; place: WorkspacePlace }) {
  const events = useQuery(workspaceEventsQuery(kind, place))
  if (events.error) return <ProblemView error={events.error} />
  if (!events.data) return <Loading />
  return <EventList events={[...events.data].reverse()} className="divide-y rounded-lg border bg-card" />
}

export function WorkspaceLog({ kind, place, over }: { kind: WorkspaceKind; place: WorkspacePlace; over: boolean }) {
  const s = useTexts(workspaceTexts)
  return (
    <section
      aria-label={s("log")}
      className="flex h-[calc(100vh-18rem)] min-h-80 min-w-0 flex-col overflow-hidden rounded-lg border bg-card"
    >
      <LogView source={workspaceLog(kind, place)} over={over} label={s("logOf", { name: place.name })} />
    </section>
  )
}
