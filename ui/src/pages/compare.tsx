/** Metrics of several runs and jobs in the same charts. They are chosen in the lists, and named in the address. */
import { getRouteApi, Link } from "@tanstack/react-router"
import { ChartSpline, X } from "lucide-react"
import { useMemo } from "react"
import { joinSubjects, useCompared } from "@/api/metrics"
import { Button } from "@/components/button"
import { Empty } from "@/components/feedback"
import { MetricsPanel } from "@/components/metrics-panel"
import { Page } from "@/components/page"
import { TensorBoardButton } from "@/components/tensorboard-button"
import { metricTexts } from "@/i18n/metrics"
import { useTexts } from "@/i18n/translate"

const route = getRouteApi("/shell/compare")

export function ComparePage() {
  const w = useTexts(metricTexts)
  const { of: given = "" } = route.useSearch()
  const navigate = route.useNavigate()
  const chosen = useCompared((all) => all.chosen)
  const subjects = useMemo(() => given.split(",").filter(Boolean).map(decodeURIComponent), [given])
  const runs = subjects.flatMap((subject) => (subject.startsWith("run:") ? [subject.slice(4)] : []))
  const lists = (
    <>
      {runs.length > 0 && runs.length === subjects.length && <TensorBoardButton of={{ runs }} />}
      <Button asChild>
        <Link to="/runs">{w("runs")}</Link>
      </Button>
      <Button asChild>
        <Link to="/jobs">{w("jobs")}</Link>
      </Button>
    </>
  )
  const remove = (subject: string) =>
    void navigate({ search: { of: joinSubjects(subjects.filter((each) => each !== subject)) }, replace: true })
  return (
    <Page wide title={w("compareTitle")} lead={w("compareLead")} actions={subjects.length > 0 && lists}>
      {subjects.length === 0 ? (
        <Empty icon={ChartSpline} title={w("chooseFirst")} actions={lists} />
      ) : (
        <>
          <ul className="flex flex-wrap gap-1.5">
            {subjects.map((subject) => {
              const name = chosen.get(subject) ?? subject
              return (
                <li key={subject} className="inline-flex items-center gap-1 rounded-md border bg-card pl-2 text-[13px]">
                  <span className="max-w-72 truncate">{name}</span>
                  <Button look="ghost" size="icon" aria-label={w("remove", { name })} onClick={() => remove(subject)}>
                    <X aria-hidden className="size-3.5" />
                  </Button>
                </li>
              )
            })}
          </ul>
          <MetricsPanel key={given} of={{ compare: subjects }} />
        </>
      )}
    </Page>
  )
}
