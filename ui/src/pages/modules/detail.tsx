import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { useMemo, useRef } from "react"
import {
  buildLog,
  type Module,
  type ModuleVersion,
  type ModuleVersionDetail,
  moduleQuery,
  modulesChanged,
  type Review,
  reviewsQuery,
  WHILE_BUILDING,
} from "@/api/modules"
import { moduleVersionQuery, moduleVersionsQuery } from "@/api/options"
import { failure } from "@/api/problem"
import { Badge, MODULE_STATES, ModuleStateBadge } from "@/components/badge"
import { type Column, DataTable } from "@/components/data-table"
import { Loading, ProblemView } from "@/components/feedback"
import { Select } from "@/components/form"
import { LogView } from "@/components/log-view"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { moduleTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"
import { ModuleActions } from "./actions"
import { VersionBanner } from "./version-banner"
import { Commit, Facts, Parameters, Readme } from "./version-parts"

const route = getRouteApi("/shell/modules/$module")

export function ModuleDetail() {
  const w = useTexts(moduleTexts)
  const c = useTexts(commonTexts)
  const { module: name } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(moduleQuery(name))
  const module = found.data
  const number = search.version ?? (module ? String(module.versions) : "")
  const chosen = useQuery({
    ...moduleVersionQuery(name, number),
    staleTime: 5_000,
    enabled: number !== "",
    refetchInterval: ({ state }) => (state.data?.state === "building" ? WHILE_BUILDING : false),
  })
  const version = chosen.data
  const inspects = module?.may.includes("inspect") ?? false
  const reviews = useQuery({ ...reviewsQuery({ module: name, limit: 200 }), enabled: inspects })

  if (failure(found) || failure(chosen))
    return (
      <Page title={name} above={<ToModules />}>
        <ProblemView
          error={found.error ?? chosen.error}
          retry={() => void (found.error ? found.refetch() : chosen.refetch())}
        />
      </Page>
    )
  if (!module || !version) return <Loading />
  const select = (version: string) =>
    void navigate({
      search: (before) => ({ ...before, version: version === String(module.versions) ? undefined : version }),
    })
  const tabs = [
    { id: "readme", label: w("readme"), content: <Readme version={version} /> },
    { id: "parameters", label: w("parameters"), content: <Parameters version={version} values={inspects} /> },
    { id: "versions", label: w("versions"), content: <Versions module={module} reviews={reviews.data?.items ?? []} /> },
    ...(inspects ? [{ id: "log", label: w("log"), content: <BuildLog module={name} version={version} /> }] : []),
  ]
  const usual = version.built || !inspects ? "readme" : "log"
  const tab = tabs.some((each) => each.id === search.tab) ? search.tab : usual
  const showTab = (tab: string) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })
  return (
    <Page
      title={module.name}
      aside={
        <>
          <ModuleStateBadge state={version.state} />
          <Badge>{module.category_name}</Badge>
        </>
      }
      above={<ToModules />}
      lead={module.description || undefined}
      actions={<ModuleActions module={module} version={version} />}
    >
      <VersionBanner
        module={module}
        version={version}
        review={latest(reviews.data?.items, version)}
        showLog={() => showTab("log")}
      />
      <div className="grid gap-6 lg:grid-cols-[minmax(0,1fr)_18rem]">
        <Tabs tabs={tabs} value={tab} onChange={showTab} inside="pt-4" className="min-w-0" />
        <aside aria-label={w("source")} className="flex flex-col gap-4 self-start rounded-lg border bg-card p-4">
          <VersionChoice module={module} version={version} select={select} />
          <dl className="flex flex-col gap-3">
            <div>
              <dt className="text-[13px] text-muted-foreground">{c("owner")}</dt>
              <dd>
                {module.owner_name}
                {module.team_name && <span className="text-muted-foreground"> · {module.team_name}</span>}
              </dd>
            </div>
          </dl>
          <Facts version={version} />
        </aside>
      </div>
    </Page>
  )
}

function ToModules() {
  const w = useTexts(moduleTexts)
  return (
    <Link to="/modules" className="hover:underline">
      {w("title")}
    </Link>
  )
}

function VersionChoice({
  module,
  version,
  select,
}: {
  module: Module
  version: ModuleVersionDetail
  select: (version: string) => void
}) {
  const w = useTexts(moduleTexts)
  const versions = useQuery({ ...moduleVersionsQuery(module.name), staleTime: 5_000 }).data?.items ?? []
  const shown = (state: string) => {
    const known = MODULE_STATES[state]
    return known ? w(known.word) : state
  }
  return (
    <label className="flex flex-col gap-1">
      <span className="text-[13px] text-muted-foreground">{w("version")}</span>
      <Select value={String(version.number)} onChange={(event) => select(event.target.value)}>
        {!versions.some(({ number }) => number === version.number) && (
          <option value={String(version.number)}>v{version.number}</option>
        )}
        {versions.map(({ id, number, state }) => (
          <option key={id} value={String(number)}>
            v{number} · {shown(number === version.number ? version.state : state)}
          </option>
        ))}
      </Select>
    </label>
  )
}

function BuildLog({ module, version }: { module: string; version: ModuleVersionDetail }) {
  // A version that is built again has a new log at the same address.
  const builds = useRef({ state: version.state, count: 0 })
  if (version.state === "building" && builds.current.state !== "building") builds.current.count += 1
  builds.current.state = version.state
  return (
    <section className="h-[30rem] overflow-hidden rounded-lg border bg-card">
      <LogView
        key={`${version.id} ${builds.current.count}`}
        source={buildLog(module, version.number)}
        over={version.state !== "building"}
        ended={modulesChanged}
      />
    </section>
  )
}

function Versions({ module, reviews }: { module: Module; reviews: Review[] }) {
  const w = useTexts(moduleTexts)
  const c = useTexts(commonTexts)
  const found = useQuery({
    ...moduleVersionsQuery(module.name),
    staleTime: 5_000,
    refetchInterval: ({ state }) =>
      state.data?.items.some((version) => version.state === "building") ? WHILE_BUILDING : false,
  })
  const columns = useMemo(
    (): Column<ModuleVersion>[] => [
      {
        id: "version",
        header: w("version"),
        cell: ({ number }) => (
          <Link
            to="/modules/$module"
            params={{ module: module.name }}
            search={{ version: String(number) }}
            className="font-medium text-primary hover:underline"
          >
            v{number}
          </Link>
        ),
      },
      { id: "state", header: w("state"), cell: ({ state }) => <ModuleStateBadge state={state} /> },
      {
        id: "commit",
        header: w("commit"),
        cell: ({ git_commit, git_ref }) => (
          <span className="whitespace-nowrap">
            <Commit commit={git_commit} /> <span className="text-[13px] text-muted-foreground">{git_ref}</span>
          </span>
        ),
      },
      { id: "author", header: c("author"), cell: ({ author_name }) => author_name },
      { id: "created", header: c("created"), cell: ({ created }) => <Time at={created} /> },
      ...(module.may.includes("inspect")
        ? [
            {
              id: "review",
              header: w("review"),
              cell: (version: ModuleVersion) => <Judgement version={version} review={latest(reviews, version)} />,
            },
          ]
        : []),
    ],
    [w, c, module, reviews],
  )
  return (
    <>
      <ProblemView error={found.error} />
      {found.isPending && <Loading />}
      {found.data && (
        <DataTable label={w("versions")} columns={columns} rows={found.data.items} rowId={({ id }) => id} />
      )}
    </>
  )
}

/** The result of the review, or of the build if it failed. */
function Judgement({ version, review }: { version: ModuleVersion; review: Review | undefined }) {
  const w = useTexts(moduleTexts)
  if (!review) return <span className="text-[13px] text-muted-foreground">{version.reason || "–"}</span>
  const by = { name: review.decided_by_name ?? "" }
  const told = {
    open: w("askedAt"),
    approved: w("approvedBy", by),
    rejected: w("rejectedBy", by),
    withdrawn: w("withdrawn"),
  }[review.state]
  return (
    <div className="max-w-72 min-w-32">
      <Link to="/reviews/$review" params={{ review: review.id }} className="text-primary hover:underline">
        {told}
      </Link>
      {review.reason && <p className="line-clamp-2 text-[13px] text-muted-foreground">{review.reason}</p>}
    </div>
  )
}

/** The latest review; reviews are sorted newest first. */
function latest(reviews: Review[] | undefined, version: { id: string }): Review | undefined {
  return reviews?.find((review) => review.version_id === version.id)
}
