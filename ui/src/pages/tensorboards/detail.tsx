import { useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { type TensorBoard, tensorBoardQuery } from "@/api/workspaces"
import { useTexts } from "@/i18n/translate"
import { tensorBoardTexts } from "@/i18n/workspaces"
import { WorkspaceActions } from "@/pages/notebooks/parts"
import { Card, WorkspacePage } from "@/pages/notebooks/workspace-page"

const route = getRouteApi("/shell/tensorboards/$namespace/$name")

export function TensorBoardPage() {
  const w = useTexts(tensorBoardTexts)
  const place = route.useParams()
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  return (
    <WorkspacePage
      kind="tensorboards"
      place={place}
      title={w("title")}
      found={useQuery(tensorBoardQuery(place))}
      tab={tab}
      onTab={(tab) => void navigate({ search: { tab }, replace: true })}
      actions={(board) => <WorkspaceActions kind="tensorboards" workspace={board} open />}
      notice={(board) =>
        board.state === "starting" &&
        !board.progress && (
          <p role="status" className="text-muted-foreground">
            {w("waiting")}
          </p>
        )
      }
      overview={(board) => <Overview board={board} />}
    />
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
