/** The metrics of a run, a node, a job, or of several of them: one chart for each, with the same axes and cursor. */
import { useQuery } from "@tanstack/react-query"
import { ChartSpline, Download } from "lucide-react"
import { type FormEvent, useDeferredValue, useId, useMemo, useState } from "react"
import { csvAddress, type MetricsOf, metricsQuery } from "@/api/metrics"
import { useIsDark } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Segments } from "@/components/filters"
import { Field, Input, Tick } from "@/components/form"
import { MetricChart } from "@/components/metric-chart"
import { metricTexts } from "@/i18n/metrics"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { chartsOf, type Line, linesOf, type MetricProblem, type XAxis } from "@/lib/metric-curves"

const AXES: XAxis[] = ["step", "relative", "time"]
const FIRST_CHARTS = 24
const SMOOTHING = 0.6

export function MetricsPanel({ of, narrow }: { of: MetricsOf; narrow?: boolean }) {
  const w = useTexts(metricTexts)
  const dark = useIsDark()
  const group = useId()
  const [pattern, setPattern] = useState("")
  const [axis, setAxis] = useState<XAxis>("step")
  const [weight, setWeight] = useState(SMOOTHING)
  const [log, setLog] = useState(false)
  const [search, setSearch] = useState("")
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set())
  const [most, setMost] = useState(FIRST_CHARTS)
  const found = useQuery(metricsQuery(of, pattern))
  const view = useDeferredValue(
    useMemo(() => ({ axis, weight, log, search, hidden }), [axis, weight, log, search, hidden]),
  )
  const metrics = found.data
  const lines = useMemo(() => linesOf(metrics?.series ?? [], dark), [metrics, dark])
  const charts = useMemo(() => (metrics ? chartsOf(metrics, lines, view) : []), [metrics, lines, view])
  const ownPattern = metrics && Object.values(metrics.patterns)[0]
  const toggle = (key: string) => {
    const next = new Set(hidden)
    if (!next.delete(key)) next.add(key)
    setHidden(next)
  }
  return (
    <section aria-label={w("metrics")} className={classes("flex flex-col gap-3", narrow && "p-3")}>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <Input
          type="search"
          className="h-8 w-44"
          aria-label={w("search")}
          placeholder={w("search")}
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
        <Segments
          label={w("axis")}
          choices={AXES.map((value) => ({ value, label: w(value) }))}
          value={axis}
          onChange={setAxis}
        />
        <label className="inline-flex items-center gap-2 text-[13px]">
          {w("smoothing")}
          <input
            type="range"
            min={0}
            max={0.99}
            step={0.01}
            value={weight}
            onChange={(event) => setWeight(Number(event.target.value))}
            className="w-24 accent-primary"
          />
          <output className="w-8 tabular-nums">{weight.toFixed(2)}</output>
        </label>
        <Tick label={w("log")} className="text-[13px]" checked={log} onChange={() => setLog(!log)} />
        {metrics?.live && <Badge tone="running">{w("live")}</Badge>}
        <Button asChild className="ml-auto">
          <a href={csvAddress(of, pattern)} download>
            <Download aria-hidden className="size-4" />
            {w("csv")}
          </a>
        </Button>
      </div>
      {lines.size > 1 && <Toggles lines={[...lines.values()]} hidden={hidden} toggle={toggle} />}
      {metrics && metrics.problems.length > 0 && <Problems problems={metrics.problems} />}
      {found.error ? (
        <ProblemView error={found.error} retry={() => void found.refetch()} except={["pattern"]} />
      ) : !metrics ? (
        <Loading />
      ) : metrics.series.length === 0 ? (
        <Empty icon={ChartSpline} title={w("empty")}>
          {w("emptyHelp")}
        </Empty>
      ) : charts.length === 0 ? (
        <p className="text-muted-foreground">{w("noneFound")}</p>
      ) : (
        <div className={classes("grid gap-3", !narrow && "md:grid-cols-2 2xl:grid-cols-3")}>
          {charts.slice(0, most).map((chart) => (
            <MetricChart
              key={chart.tag}
              chart={chart}
              axis={view.axis}
              log={view.log}
              smoothed={view.weight > 0}
              group={group}
              dark={dark}
            />
          ))}
        </div>
      )}
      {charts.length > most && (
        <Button className="self-center" onClick={() => setMost(most + FIRST_CHARTS)}>
          {w("more", { n: Math.min(FIRST_CHARTS, charts.length - most) })}
        </Button>
      )}
      <PatternForm key={ownPattern} initial={pattern || (ownPattern ?? "")} apply={setPattern} />
    </section>
  )
}

function Toggles({
  lines,
  hidden,
  toggle,
}: {
  lines: Line[]
  hidden: ReadonlySet<string>
  toggle: (key: string) => void
}) {
  const w = useTexts(metricTexts)
  return (
    <div role="group" aria-label={w("lines")} className="flex flex-wrap gap-1.5">
      {lines.map((line) => {
        const shown = !hidden.has(line.key)
        return (
          <button
            key={line.key}
            type="button"
            aria-pressed={shown}
            title={w(shown ? "hide" : "show", { name: line.label })}
            onClick={() => toggle(line.key)}
            className={classes(
              "inline-flex max-w-72 items-center gap-1.5 rounded-md border bg-card px-2 py-0.5 text-xs hover:bg-muted",
              !shown && "text-muted-foreground line-through",
            )}
          >
            <span
              aria-hidden
              className="w-4 shrink-0 border-t-2"
              style={{ borderColor: line.color, borderStyle: line.dash ? "dashed" : "solid", opacity: shown ? 1 : 0.3 }}
            />
            <span className="truncate">{line.label}</span>
          </button>
        )
      })}
    </div>
  )
}

function Problems({ problems }: { problems: MetricProblem[] }) {
  const w = useTexts(metricTexts)
  return (
    <details className="rounded-md border border-warning/50 bg-card px-3 py-1.5 text-[13px]">
      <summary className="cursor-pointer text-warning">{w("problems")}</summary>
      <ul className="mt-1 flex flex-col gap-1 break-all">
        {problems.map((problem) => (
          <li key={`${problem.subject}${problem.source}${problem.message}`}>
            {(problem.source || problem.subject) && (
              <code className="mr-2 font-mono text-xs">{problem.source || problem.subject}</code>
            )}
            {problem.message}
          </li>
        ))}
      </ul>
    </details>
  )
}

function PatternForm({ initial, apply }: { initial: string; apply: (pattern: string) => void }) {
  const w = useTexts(metricTexts)
  const [text, setText] = useState(initial)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    apply(text.trim())
  }
  return (
    <details className="text-[13px]">
      <summary className="cursor-pointer text-primary">{w("pattern")}</summary>
      <form onSubmit={submit} className="mt-2 flex flex-wrap items-end gap-2">
        <Field label={w("pattern")} hideLabel hint={w("patternHint")} className="min-w-0 flex-1 basis-80">
          {(attributes) => (
            <Input
              {...attributes}
              className="font-mono"
              maxLength={1000}
              spellCheck={false}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </Field>
        <Button type="submit" className="self-start">
          {w("apply")}
        </Button>
      </form>
    </details>
  )
}
