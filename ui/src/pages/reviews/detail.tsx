import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Boxes, Check, Undo2, X } from "lucide-react"
import { useState } from "react"
import { buildLog, type Review, reviewQuery } from "@/api/modules"
import { moduleVersionQuery, moduleVersionsQuery } from "@/api/offers"
import { useMe } from "@/api/session"
import { Button } from "@/components/button"
import { Loading } from "@/components/feedback"
import { LogView } from "@/components/log-view"
import { Page } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { ReviewState } from "@/components/review-state"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { comparedWith } from "@/lib/module-changes"
import { commonWords } from "@/words/common"
import { moduleWords, reviewWords } from "@/words/modules"
import { useWords } from "@/words/words"
import { Fact, Facts, Parameters, Readme } from "../modules/parts"
import { Changes } from "./changes"
import { Decide, type Decision } from "./decide"

const route = getRouteApi("/shell/reviews/$review")

export function ReviewDetail() {
  const w = useWords(reviewWords)
  const { review: id } = route.useParams()
  const found = useQuery({
    ...reviewQuery(id),
    refetchInterval: ({ state }) => (state.data?.state === "open" ? 15_000 : false),
  })
  if (found.error)
    return (
      <Page title={w("title")} above={<ToReviews />}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  return found.data ? <Detail review={found.data} /> : <Loading />
}

function Detail({ review }: { review: Review }) {
  const w = useWords(reviewWords)
  const m = useWords(moduleWords)
  const c = useWords(commonWords)
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
      aside={<ReviewState state={review.state} />}
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
  const w = useWords(reviewWords)
  return (
    <Link to="/reviews" className="hover:underline">
      {w("title")}
    </Link>
  )
}
