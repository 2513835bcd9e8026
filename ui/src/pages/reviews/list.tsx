import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { ListChecks } from "lucide-react"
import { useMemo } from "react"
import { useMe } from "@/api/client"
import { type Review, reviewsQuery } from "@/api/modules"
import { ReviewStateBadge } from "@/components/badge"
import { Button } from "@/components/button"
import type { Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox, Segments } from "@/components/filters"
import { Tick } from "@/components/form"
import { Listing } from "@/components/listing"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { reviewTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"

const route = getRouteApi("/shell/reviews")
const STATES = ["open", "approved", "rejected", "withdrawn"] as const

export function ReviewList() {
  const w = useTexts(reviewTexts)
  const c = useTexts(commonTexts)
  const me = useMe()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { filter, asked, shown } = listState(search, navigate, "-created")
  const decides = me.user.role === "admin" || Object.values(me.teams).includes("leader")
  // Reviewers see pending reviews first; authors see all of theirs.
  const usual = decides ? "open" : "all"
  const state = search.state === "all" ? "all" : (STATES.find((each) => each === search.state) ?? usual)
  const found = useQuery({
    ...reviewsQuery({
      q: search.q,
      state: state === "all" ? "" : state,
      ...(search.mine ? { mine: true } : {}),
      ...asked,
    }),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  })
  const columns = useMemo(
    (): Column<Review>[] => [
      {
        id: "module",
        header: w("module"),
        sort: "module",
        cell: (review) => (
          <Link
            to="/reviews/$review"
            params={{ review: review.id }}
            className="font-medium whitespace-nowrap text-primary hover:underline"
          >
            {review.module_name} v{review.number}
          </Link>
        ),
      },
      { id: "state", header: w("state"), sort: "state", cell: (review) => <ReviewStateBadge state={review.state} /> },
      { id: "author", header: w("askedBy"), sort: "author", cell: (review) => review.author_name },
      { id: "team", header: c("team"), cell: (review) => review.team_name ?? "–" },
      { id: "created", header: w("asked"), sort: "created", cell: (review) => <Time at={review.created} /> },
      { id: "decided", header: w("decidedBy"), sort: "decided", cell: (review) => <Decider review={review} /> },
      {
        id: "reason",
        header: w("reason"),
        cell: (review) => (
          <span className="line-clamp-2 max-w-72 min-w-32 text-muted-foreground">{review.reason || "–"}</span>
        ),
      },
    ],
    [w, c],
  )
  const filtered = search.q || search.mine || (search.state && search.state !== "all")
  return (
    <Page title={w("title")} lead={w(decides ? "leadAll" : "leadOwn")}>
      <Filters>
        <Segments
          label={w("state")}
          value={state}
          onChange={(value) => filter({ state: value === usual ? undefined : value })}
          choices={[...STATES.map((value) => ({ value, label: w(value) })), { value: "all" as const, label: c("all") }]}
        />
        <SearchBox
          className="w-60"
          label={w("search")}
          value={search.q ?? ""}
          onChange={(q) => filter({ q: q || undefined })}
        />
        {decides && (
          <Tick
            label={w("mine")}
            checked={Boolean(search.mine)}
            onChange={(event) => filter({ mine: event.target.checked ? "yes" : undefined })}
          />
        )}
      </Filters>
      <Listing
        label={w("title")}
        found={found}
        columns={columns}
        rowId={(review) => review.id}
        {...shown}
        clear={filtered ? () => void navigate({ search: {} }) : undefined}
        empty={
          state === "open" ? (
            <Empty
              icon={ListChecks}
              title={w("emptyOpen")}
              actions={<Button onClick={() => filter({ state: "all" })}>{w("showAll")}</Button>}
            >
              {w("emptyOpenHelp")}
            </Empty>
          ) : (
            <Empty
              icon={ListChecks}
              title={w("empty")}
              actions={
                <Button asChild look="primary">
                  <Link to="/modules" search={{ show: "mine" }}>
                    {w("toModules")}
                  </Link>
                </Button>
              }
            >
              {w("emptyHelp")}
            </Empty>
          )
        }
      />
    </Page>
  )
}

function Decider({ review }: { review: Review }) {
  if (!review.decided) return <span className="text-muted-foreground">–</span>
  return (
    <span className="whitespace-nowrap">
      {review.state !== "withdrawn" && `${review.decided_by_name} `}
      <span className="text-[13px] text-muted-foreground">
        <Time at={review.decided} />
      </span>
    </span>
  )
}
