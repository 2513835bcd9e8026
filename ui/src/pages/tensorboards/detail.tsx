import { useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { type TensorBoard, tensorBoardQuery, useLiveWorkspace } from "@/api/workspaces"
import { DetailPage, Facts } from "@/components/detail-page"
import { Owner } from "@/components/owner"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { tensorBoardTexts, workspaceTexts } from "@/i18n/workspaces"
import { Card, WorkspaceEvents, WorkspaceLog } from "@/pages/notebooks/detail"
import { OpenButton, WorkspaceActions, WorkspaceBanner, WorkspaceStateBadge } from "@/pages/notebooks/parts"

const route = getRouteApi("/shell/tensorboards/$namespace/$name")

export function TensorBoardPage() {
  const w = useTexts(tensorBoardTexts)
  const s = useTexts(workspaceTexts)
  const c = useTexts(commonTexts)
  const place = route.useParams()
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(tensorBoardQuery(place))
  const gone = useLiveWorkspace("tensorboards", place)
  return (
    <DetailPage
      name={place.name}
      list={{ to: "/tensorboards", title: w("title") }}
      found={found}
      deleted={gone && s("wasDeleted")}
    >
      {(board, back) => {
        const tabs = [
          { id: "overview", label: s("overview"), content: <Overview board={board} /> },
          { id: "events", label: s("events"), content: <WorkspaceEvents kind="tensorboards" place={place} /> },
          {
            id: "log",
            label: s("log"),
            content: <WorkspaceLog kind="tensorboards" place={place} over={board.state === "stopped"} />,
          },
        ]
        return (
          <Page
            wide
            title={board.name}
            aside={<WorkspaceStateBadge state={board.state} />}
            above={back}
            lead={
              <Facts>
                <span>
                  {s("namespace")}: {board.namespace}
                </span>
                <span>
                  {c("owner")}: <Owner of={board} />
                </span>
                <span>
                  {c("created")}: <Time at={board.created} />
                </span>
              </Facts>
            }
            actions={
              <>
                <OpenButton workspace={board} />
                <WorkspaceActions kind="tensorboards" workspace={board} open />
              </>
            }
          >
            {board.state === "starting" && !board.progress && (
              <p role="status" className="text-muted-foreground">
                {w("waiting")}
              </p>
            )}
            <WorkspaceBanner workspace={board} />
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

function Overview({ board }: { board: TensorBoard }) {
  const w = useTexts(tensorBoardTexts)
  return (
    <Card title={w("logs")}>
      <ul className="flex flex-col gap-1">
        {board.logs.map(({ name, path }) => (
          <li key={`${name} ${path}`} className="break-all">
            {name && <span className="mr-2 font-medium">{name}</span>}
            <code className="font-mono text-[13px] text-muted-foreground">{path}</code>
          </li>
        ))}
      </ul>
    </Card>
  )
}
