/** The page of a notebook or a TensorBoard. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query"
import type { ReactNode } from "react"
import {
  useLiveWorkspace,
  type Workspace,
  type WorkspaceKind,
  type WorkspacePlace,
  workspaceEventsQuery,
  workspaceLog,
} from "@/api/workspaces"
import { DetailPage, Events, Fact, LogFrame, TabbedPage } from "@/components/detail-page"
import { LogView } from "@/components/log-view"
import { Owner } from "@/components/owner"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { workspaceTexts } from "@/i18n/workspaces"
import { OpenButton, WorkspaceBanner, WorkspaceStateBadge } from "./parts"

interface Props<W extends Workspace> {
  kind: WorkspaceKind
  place: WorkspacePlace
  /** The title of the list. */
  title: string
  found: UseQueryResult<W>
  tab: string | undefined
  onTab: (tab: string) => void
  /** More facts below the title. */
  facts?: (workspace: W) => ReactNode
  /** What can be done besides opening it. */
  actions: (workspace: W) => ReactNode
  notice?: (workspace: W) => ReactNode
  overview: (workspace: W) => ReactNode
}

export function WorkspacePage<W extends Workspace>({ kind, place, title, found, tab, onTab, ...parts }: Props<W>) {
  const s = useTexts(workspaceTexts)
  const c = useTexts(commonTexts)
  const gone = useLiveWorkspace(kind, place)
  return (
    <DetailPage name={place.name} list={{ to: `/${kind}`, title }} found={found} deleted={gone && s("wasDeleted")}>
      {(workspace, back) => (
        <TabbedPage
          title={workspace.name}
          state={<WorkspaceStateBadge state={workspace.state} />}
          back={back}
          facts={
            <>
              <Fact label={s("namespace")}>{workspace.namespace}</Fact>
              <Fact label={c("owner")}>
                <Owner of={workspace} />
              </Fact>
              <Fact label={c("created")}>
                <Time at={workspace.created} />
              </Fact>
              {parts.facts?.(workspace)}
            </>
          }
          actions={
            <>
              <OpenButton workspace={workspace} />
              {parts.actions(workspace)}
            </>
          }
          notice={
            <>
              <WorkspaceBanner workspace={workspace} />
              {parts.notice?.(workspace)}
            </>
          }
          tabs={[
            { id: "overview", label: s("overview"), content: parts.overview(workspace) },
            { id: "events", label: s("events"), content: <WorkspaceEvents kind={kind} place={place} /> },
            {
              id: "log",
              label: s("log"),
              content: <WorkspaceLog kind={kind} place={place} over={workspace.state === "stopped"} />,
            },
          ]}
          tab={tab}
          onTab={onTab}
        />
      )}
    </DetailPage>
  )
}

export function Card({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="rounded-lg border bg-card p-4">
      <h2 className="mb-1 text-sm font-medium text-muted-foreground">{title}</h2>
      {children}
    </section>
  )
}

function WorkspaceEvents({ kind, place }: { kind: WorkspaceKind; place: WorkspacePlace }) {
  return <Events found={useQuery(workspaceEventsQuery(kind, place))} />
}

function WorkspaceLog({ kind, place, over }: { kind: WorkspaceKind; place: WorkspacePlace; over: boolean }) {
  const s = useTexts(workspaceTexts)
  return (
    <LogFrame label={s("log")}>
      <LogView source={workspaceLog(kind, place)} over={over} label={s("logOf", { name: place.name })} />
    </LogFrame>
  )
}
