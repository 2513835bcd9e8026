import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { ArrowLeftRight, GitCompare } from "lucide-react"
import { type Change, diffQuery, versionsQuery, workflowQuery } from "@/api/workflows"
import { Badge, type Tone } from "@/components/badge"
import { Button } from "@/components/button"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Filters } from "@/components/filters"
import { Select } from "@/components/form"
import { LineDiff } from "@/components/line-diff"
import { Page } from "@/components/page"
import { nodeFieldLabel } from "@/graph/node-fields"
import { useTexts, useTranslate } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"

const route = getRouteApi("/shell/workflows/$workflow/diff")

export function VersionDiff() {
  const w = useTexts(workflowTexts)
  const { workflow: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const workflow = useQuery(workflowQuery(id))
  const versions = useQuery(versionsQuery(id, { limit: 200 }))
  const items = versions.data?.items ?? []
  const number = (word: string | undefined) => (word === "latest" ? String(items[0]?.number ?? "") : (word ?? ""))
  const before = number(search.before) || String(items[1]?.number ?? "")
  const after = number(search.after) || String(items[0]?.number ?? "")
  const diff = useQuery({
    ...diffQuery(id, before, after),
    enabled: Boolean(before && after),
    placeholderData: keepPreviousData,
  })
  const set = (change: Partial<typeof search>) => void navigate({ search: { before, after, ...change }, replace: true })
  const name = workflow.data?.name ?? ""

  const choice = (label: string, value: string, choose: (version: string) => void) => (
    <label className="inline-flex items-center gap-2">
      <span className="text-[13px] text-muted-foreground">{label}</span>
      <Select className="w-auto" value={value} onChange={(event) => choose(event.target.value)}>
        {items.map((version) => (
          <option key={version.id} value={String(version.number)}>
            {version.name}
          </option>
        ))}
      </Select>
    </label>
  )
  return (
    <Page
      title={w("compareTitle", { name })}
      above={
        <Link to="/workflows/$workflow" params={{ workflow: id }} className="hover:underline">
          {name}
        </Link>
      }
    >
      <ProblemView error={workflow.error ?? versions.error ?? diff.error} />
      {versions.isPending && <Loading />}
      {items.length > 1 && (
        <Filters>
          {choice(w("before"), before, (version) => set({ before: version }))}
          <Button
            size="icon"
            aria-label={w("swap")}
            title={w("swap")}
            onClick={() => set({ before: after, after: before })}
          >
            <ArrowLeftRight />
          </Button>
          {choice(w("after"), after, (version) => set({ after: version }))}
          {diff.data && <span className="text-muted-foreground">{w("changes", { n: diff.data.changes.length })}</span>}
        </Filters>
      )}
      {versions.data && items.length < 2 && (
        <Empty
          icon={GitCompare}
          title={w("needsTwo")}
          actions={
            <Button asChild look="primary">
              <Link to="/workflows/$workflow/new-version" params={{ workflow: id }}>
                {w("newVersion")}
              </Link>
            </Button>
          }
        >
          {w("needsTwoHelp")}
        </Empty>
      )}
      {diff.data &&
        (diff.data.changes.length ? (
          <ul className="flex flex-col gap-2">
            {diff.data.changes.map((change, index) => (
              <ChangeItem key={index} change={change} />
            ))}
          </ul>
        ) : (
          <Empty icon={GitCompare} title={w("same")} />
        ))}
    </Page>
  )
}

const TONES: Record<Change["action"], Tone> = { added: "succeeded", removed: "failed", changed: "warning" }
const KINDS: Record<string, keyof typeof workflowTexts> = {
  parameter: "whatParameter",
  node: "whatNode",
  edge: "whatEdge",
  input: "whatInput",
  output: "whatOutput",
  variable: "whatVariable",
  "storage root": "whatStorage",
  field: "whatField",
}

function ChangeItem({ change }: { change: Change }) {
  const w = useTexts(workflowTexts)
  const place = useChangePlace()
  return (
    <li className="rounded-lg border bg-card">
      <div className="flex flex-wrap items-center gap-2 px-3 py-2">
        <Badge tone={TONES[change.action]}>{w(change.action)}</Badge>
        <span className="text-muted-foreground">{w(KINDS[change.what] ?? "whatField")}</span>
        <span className="font-medium break-all">{place(change)}</span>
      </div>
      <LineDiff before={shown(change.before)} after={shown(change.after)} />
    </li>
  )
}

/** `nodes[train].inputs[lr]` is "train › lr", `nodes[train].command` is "train › Command". */
function useChangePlace(): (change: Change) => string {
  const text = useTranslate()
  return ({ path, name }) => {
    const found = /^nodes\[(.*?)\]\.(\w+)(?:\[(.*)\])?$/.exec(path)
    if (!found) return name.replace(" -> ", " → ")
    const [, node = "", field = "", inside] = found
    const label = nodeFieldLabel(field)
    return `${node} › ${inside ?? (label ? text(label) : field)}`
  }
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return ""
  if (typeof value === "string") return value
  if (typeof value !== "object") return String(value)
  return Object.entries(value)
    .filter(([key]) => key !== "position")
    .map(([key, inside]) => `${key}: ${typeof inside === "string" ? inside : JSON.stringify(inside)}`)
    .join("\n")
}
