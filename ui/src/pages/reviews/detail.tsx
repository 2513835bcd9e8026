/** A review: what changes, and the decision. */

import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Boxes, Check, Undo2, X } from "lucide-react"
import { useMemo, useState } from "react"
import { useMe } from "@/api/client"
import { buildLog, decideReview, type ModuleVersionDetail, type Review, reviewQuery } from "@/api/modules"
import { moduleVersionQuery, moduleVersionsQuery } from "@/api/options"
import { asProblem, failure } from "@/api/problem"
import { usePreferences } from "@/app/preferences"
import { Badge, ReviewStateBadge, type Tone } from "@/components/badge"
import { Button } from "@/components/button"
import { Dialog } from "@/components/dialog"
import { Loading, ProblemView } from "@/components/feedback"
import { Field, TextArea } from "@/components/form"
import { LineDiff } from "@/components/line-diff"
import { LogView } from "@/components/log-view"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { moduleTexts, reviewTexts } from "@/i18n/modules"
import { serverMessage } from "@/i18n/server-messages"
import { sourceTexts } from "@/i18n/source"
import { useTexts } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"
import { Fact, Facts, Parameters, Readme } from "@/pages/modules/version-parts"
import { comparedWith, type ModuleChange, moduleChanges } from "./module-changes"
import { Source } from "./source"

const TONES: Record<ModuleChange["action"], Tone> = { added: "succeeded", removed: "failed", changed: "warning" }
const LABELS: Record<ModuleChange["field"], keyof typeof moduleTexts> = {
  git_url: "gitUrl",
  git_ref: "gitRef",
  git_commit: "commit",
  dockerfile: "dockerfile",
  build_dir: "buildDir",
  readme_path: "readmePath",
  entrypoint: "entrypoint",
  env: "env",
  inputs: "inputs",
  outputs: "outputs",
  readme: "readme",
}

/** The changes compared with the published version, or with nothing if there is none. */
export function Changes({ before, after }: { before: ModuleVersionDetail | undefined; after: ModuleVersionDetail }) {
  const w = useTexts(reviewTexts)
  const m = useTexts(moduleTexts)
  const v = useTexts(workflowTexts)
  const changes = useMemo(() => moduleChanges(before, after), [before, after])
  const real = changes.filter(({ field }) => field !== "git_commit")
  return (
    <div className="flex flex-col gap-3">
      <p className="text-muted-foreground">
        {before === undefined
          ? w("firstVersion")
          : real.length
            ? `${w("changesSince", { n: before.number })} · ${w("changeCount", { n: changes.length })}`
            : w("noChanges", { n: before.number })}
      </p>
      <ul className="flex flex-col gap-2">
        {changes.map((change) => (
          <li key={`${change.field} ${change.name ?? ""}`} className="overflow-hidden rounded-lg border bg-card">
            <div className="flex flex-wrap items-center gap-2 px-3 py-2">
              <Badge tone={TONES[change.action]}>{v(change.action)}</Badge>
              <span className={change.name === undefined ? "font-medium" : "text-muted-foreground"}>
                {m(LABELS[change.field])}
              </span>
              {change.name !== undefined && (
                <span className="font-mono text-[13px] font-medium break-all">{change.name}</span>
              )}
            </div>
            <LineDiff before={change.before} after={change.after} />
          </li>
        ))}
      </ul>
    </div>
  )
}

export type Decision = "approve" | "reject" | "withdraw"

export function Decide({ review, decision, close }: { review: Review; decision: Decision; close: () => void }) {
  const w = useTexts(reviewTexts)
  const m = useTexts(moduleTexts)
  const c = useTexts(commonTexts)
  const language = usePreferences((all) => all.language)
  const [reason, setReason] = useState("")
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const what = { name: review.module_name, n: review.number }
  const decide = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await decideReview(review.id, decision, reason)
      note(
        decision === "withdraw" ? w("withdrawnNow") : w(decision === "approve" ? "approvedNow" : "rejectedNow", what),
      )
      close()
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  const texts = {
    approve: { title: w("approveTitle", what), help: w("approveHelp"), action: w("approve") },
    reject: { title: w("rejectTitle", what), help: w("rejectHelp"), action: w("reject") },
    withdraw: { title: m("withdrawTitle"), help: m("withdrawHelp"), action: m("withdraw") },
  }[decision]
  const fault = error ? asProblem(error).fields.find(({ field }) => field === "reason") : undefined
  return (
    <Dialog
      open
      onClose={close}
      title={texts.title}
      actions={
        <>
          <Button onClick={close}>{c("cancel")}</Button>
          <Button look={decision === "reject" ? "danger" : "primary"} disabled={busy} onClick={() => void decide()}>
            {texts.action}
          </Button>
        </>
      }
    >
      <p>{texts.help}</p>
      {decision !== "withdraw" && (
        <Field
          label={w(decision === "reject" ? "reason" : "comment")}
          optional={decision === "approve"}
          error={fault && serverMessage(fault, language)}
        >
          {(field) => (
            <TextArea {...field} rows={4} value={reason} onChange={(event) => setReason(event.target.value)} />
          )}
        </Field>
      )}
      {!fault && <ProblemView error={error} />}
    </Dialog>
  )
}

const route = getRouteApi("/shell/reviews/$review")

export function ReviewDetail() {
  const w = useTexts(reviewTexts)
  const { review: id } = route.useParams()
  const found = useQuery({
    ...reviewQuery(id),
    refetchInterval: ({ state }) => (state.data?.state === "open" ? 15_000 : false),
  })
  if (failure(found))
    return (
      <Page title={w("title")} above={<ToReviews />}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  return found.data ? <Detail review={found.data} /> : <Loading />
}

function Detail({ review }: { review: Review }) {
  const w = useTexts(reviewTexts)
  const m = useTexts(moduleTexts)
  const c = useTexts(commonTexts)
  const s = useTexts(sourceTexts)
  const me = useMe()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [asking, setAsking] = useState<Decision>()
  const module = review.module_id
  const version = useQuery({ ...moduleVersionQuery(module, String(review.number)), staleTime: 5_000 })
  const versions = useQuery({ ...moduleVersionsQuery(module), staleTime: 5_000 })
  const other = versions.data && comparedWith(versions.data.items, review.number)
  const before = useQuery({ ...moduleVersionQuery(module, String(other)), enabled: other !== undefined })
  const error = version.error ?? versions.error ?? before.error
  const canTell = versions.data && (other === undefined || before.data)
  const tabs = version.data
    ? [
        {
          id: "changes",
          label: w("changes"),
          content: canTell ? <Changes before={before.data} after={version.data} /> : <Loading />,
        },
        {
          id: "source",
          label: s("title"),
          content: versions.data ? (
            <Source
              module={module}
              version={review.number}
              against={other}
              selected={search.file}
              select={(file) => void navigate({ search: { tab: "source", file }, replace: true })}
            />
          ) : (
            <Loading />
          ),
        },
        { id: "readme", label: m("readme"), content: <Readme version={version.data} /> },
        { id: "parameters", label: m("parameters"), content: <Parameters version={version.data} values /> },
        {
          id: "log",
          label: m("log"),
          content: (
            <section className="h-[30rem] overflow-hidden rounded-lg border bg-card">
              <LogView source={buildLog(review.module_name, review.number)} over={version.data.state !== "building"} />
            </section>
          ),
        },
      ]
    : []
  const tab = tabs.some((each) => each.id === search.tab) ? search.tab : "changes"
  const may = (decision: Decision) => review.may.includes(decision)
  const isOwn =
    review.state === "open" && !may("approve") && (review.author_id === me.user.id || me.user.role === "admin")
  return (
    <Page
      title={`${review.module_name} v${review.number}`}
      aside={<ReviewStateBadge state={review.state} />}
      above={<ToReviews />}
      actions={
        <>
          <Button asChild>
            <Link
              to="/modules/$module"
              params={{ module: review.module_name }}
              search={{ version: String(review.number) }}
            >
              <Boxes />
              {w("openModule")}
            </Link>
          </Button>
          {may("withdraw") && (
            <Button onClick={() => setAsking("withdraw")}>
              <Undo2 />
              {m("withdraw")}
            </Button>
          )}
          {may("reject") && (
            <Button onClick={() => setAsking("reject")}>
              <X />
              {w("reject")}
            </Button>
          )}
          {may("approve") && (
            <Button look="primary" onClick={() => setAsking("approve")}>
              <Check />
              {w("approve")}
            </Button>
          )}
        </>
      }
    >
      {isOwn && <p className="text-muted-foreground">{w("ownReview")}</p>}
      {review.message && (
        <figure className="rounded-lg border bg-card px-4 py-3">
          <figcaption className="text-[13px] text-muted-foreground">
            {w("message")} · {review.author_name}
          </figcaption>
          <blockquote className="break-words whitespace-pre-line">{review.message}</blockquote>
        </figure>
      )}
      {review.reason && (
        <figure
          className={
            review.state === "rejected"
              ? "rounded-lg border border-failed/40 bg-failed/8 px-4 py-3"
              : "rounded-lg border bg-card px-4 py-3"
          }
        >
          <figcaption className="text-[13px] text-muted-foreground">
            {w(review.state === "rejected" ? "reason" : "comment")} · {review.decided_by_name}
          </figcaption>
          <blockquote className="break-words whitespace-pre-line">{review.reason}</blockquote>
        </figure>
      )}
      <ProblemView error={error} />
      {!version.data && !error && <Loading />}
      {version.data && (
        <div className="grid gap-6 lg:grid-cols-[minmax(0,1fr)_18rem]">
          <Tabs
            tabs={tabs}
            value={tab}
            onChange={(tab) => void navigate({ search: { tab }, replace: true })}
            inside="pt-4"
            className="min-w-0"
          />
          <aside aria-label={m("source")} className="flex flex-col gap-3 self-start rounded-lg border bg-card p-4">
            <dl className="flex flex-col gap-3">
              <Fact label={w("askedBy")}>
                {review.author_name}
                {review.team_name && <span className="text-muted-foreground"> · {review.team_name}</span>}
              </Fact>
              <Fact label={w("asked")}>
                <Time at={review.created} />
              </Fact>
              {version.data.author_name !== review.author_name && (
                <Fact label={c("author")}>{version.data.author_name}</Fact>
              )}
              {review.decided && review.state !== "withdrawn" && (
                <Fact label={w("decidedBy")}>
                  {review.decided_by_name} · <Time at={review.decided} />
                </Fact>
              )}
            </dl>
            <Facts version={version.data} />
          </aside>
        </div>
      )}
      {asking && <Decide review={review} decision={asking} close={() => setAsking(undefined)} />}
    </Page>
  )
}

function ToReviews() {
  const w = useTexts(reviewTexts)
  return (
    <Link to="/reviews" className="hover:underline">
      {w("title")}
    </Link>
  )
}
