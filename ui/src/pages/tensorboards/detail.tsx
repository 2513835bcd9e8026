import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Trash2 } from "lucide-react"
import { type TensorBoard, tensorBoardQuery, useLiveWorkspace } from "@/api/workspaces"
import { Button } from "@/components/button"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { tensorBoardTexts, workspaceTexts } from "@/i18n/workspaces"
import { Card, WorkspaceEvents, WorkspaceLog } from "@/pages/notebooks/detail"
import {
  OpenButton,
  WorkspaceActions,
  WorkspaceBanner,
  WorkspaceOwner,
  WorkspaceStateBadge,
} from "@/pages/notebooks/parts"

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
  const back = (
    <Link to="/tensorboards" className="hover:underline">
      {w("title")}
    </Link>
  )
  if (gone)
    return (
      <Page title={place.name} above={back}>
        <Empty
          icon={Trash2}
          title={s("wasDeleted")}
          actions={
            <Button asChild look="primary">
              <Link to="/tensorboards">{w("title")}</Link>
            </Button>
          }
        />
      </Page>
    )
  if (found.error && !found.data)
    return (
      <Page title={place.name} above={back}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data) return <Loading />
  const board = found.data
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
        <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-[13px]">
          <span>
            {s("namespace")}: {board.namespace}
          </span>
          <span>
            {c("owner")}: <WorkspaceOwner workspace={board} />
          </span>
          <span>
            {c("created")}: <Time at={board.created} />
          </span>
        </div>
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
        value={tabs.some(({ id }) => id === tab) ? tab : "overview"}
        onChange={(tab) => void navigate({ search: { tab }, replace: true })}
        inside="pt-4"
      />
    </Page>
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
