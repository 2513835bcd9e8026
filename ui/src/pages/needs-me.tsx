/** What waits for whoever looks: failed runs of theirs, and reviews that they may decide. */
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { CircleCheck, ListChecks, TriangleAlert } from "lucide-react"
import { api, data } from "@/api/client"
import { useMe } from "@/api/session"
import { usePreferences } from "@/app/preferences"
import { Time } from "@/components/time"
import { runMessage } from "@/words/run-messages"
import { homeWords } from "@/words/shell"
import { useWords } from "@/words/words"

export function NeedsMe() {
  const language = usePreferences((all) => all.language)
  const w = useWords(homeWords)
  const me = useMe()
  const failed = useQuery({
    queryKey: ["runs", "needs-me", me.user.name],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/runs", { params: { query: { owner: me.user.name, state: ["failed"], limit: 5 } }, signal })
        .then(data),
  })
  const leads = me.user.role === "admin" || Object.values(me.teams).includes("leader")
  const reviews = useQuery({
    queryKey: ["reviews", "needs-me"],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/reviews", { params: { query: { state: "open", limit: 5 } }, signal }).then(data),
    enabled: leads,
  })
  const waiting = (reviews.data?.items ?? []).filter((review) => review.may.includes("approve"))
  const runs = failed.data?.items ?? []
  if (failed.isPending) return null
  return (
    <section className="flex flex-col gap-3">
      <h2>{w("needsYou")}</h2>
      {runs.length + waiting.length === 0 ? (
        <p className="inline-flex items-center gap-2 text-muted-foreground">
          <CircleCheck aria-hidden className="size-4 text-success" />
          {w("nothingNeedsYou")}
        </p>
      ) : (
        <ul className="flex flex-col divide-y rounded-lg border bg-card">
          {runs.map((run) => (
            <li key={run.id} className="flex items-center gap-3 px-4 py-2.5">
              <TriangleAlert aria-hidden className="size-4 shrink-0 text-failed" />
              <Link to="/runs/$run" params={{ run: run.id }} className="font-medium text-primary hover:underline">
                {run.name}
              </Link>
              <span className="min-w-0 flex-1 truncate text-[13px] text-muted-foreground">
                {runMessage(run.message, language)}
              </span>
              <Time at={run.finished} />
            </li>
          ))}
          {waiting.map((review) => (
            <li key={review.id} className="flex items-center gap-3 px-4 py-2.5">
              <ListChecks aria-hidden className="size-4 shrink-0 text-primary" />
              <Link
                to="/reviews/$review"
                params={{ review: review.id }}
                className="font-medium text-primary hover:underline"
              >
                {review.module_name} v{review.number}
              </Link>
              <span className="min-w-0 flex-1 truncate text-[13px] text-muted-foreground">{review.author_name}</span>
              <Time at={review.created} />
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}
