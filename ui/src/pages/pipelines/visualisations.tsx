/** Artifacts as people read them: metrics, ROC curves, confusion matrices, web pages and Markdown. */
import { useQuery } from "@tanstack/react-query"
import { Download } from "lucide-react"
import { useId } from "react"
import { artifactAddress, artifactTextQuery, type Value } from "@/api/pipelines"
import { asProblem, failure } from "@/api/problem"
import { useIsDark } from "@/app/preferences"
import { Loading } from "@/components/feedback"
import { Markdown } from "@/components/markdown"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { colorOf, numberText } from "@/lib/metric-curves"
import {
  areaBelow,
  classificationsOf,
  type Matrix,
  type OutputArtifact,
  type RocPoint,
  scalarsOf,
  shortType,
  typeOf,
} from "@/lib/pipeline-artifacts"
import { valueText } from "@/lib/pipeline-spec"

const SHOWN = new Set([
  "system.Metrics",
  "system.ClassificationMetrics",
  "system.SlicedClassificationMetrics",
  "system.HTML",
  "system.Markdown",
])

export function isShown({ artifact }: OutputArtifact): boolean {
  return SHOWN.has(typeOf(artifact))
}

/** The content of an artifact, if there is a way to show it. */
export function Visualisation({ run, output }: { run: string; output: OutputArtifact }) {
  const { artifact, task, key, at } = output
  switch (typeOf(artifact)) {
    case "system.Metrics":
      return <Scalars rows={scalarsOf(artifact)} />
    case "system.ClassificationMetrics":
    case "system.SlicedClassificationMetrics":
      return <Classifications output={output} />
    case "system.HTML":
      return <TextContent address={artifactAddress(run, task.task_id, key, at)} name={key} isHtml />
    case "system.Markdown":
      return <TextContent address={artifactAddress(run, task.task_id, key, at)} name={key} />
    default:
      return null
  }
}

function Scalars({ rows }: { rows: [string, string | number][] }) {
  const w = useTexts(pipelineTexts)
  if (!rows.length) return <p className="text-[13px] text-muted-foreground">{w("notWritten")}</p>
  return (
    <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={w("scalarMetrics")}>
      <table className="w-full text-left text-[13px]">
        <thead>
          <tr className="border-b text-muted-foreground">
            <th scope="col" className="py-1 pr-3 font-medium">
              {w("metric")}
            </th>
            <th scope="col" className="py-1 font-medium">
              {w("value")}
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name} className="border-b last:border-0">
              <td className="py-1 pr-3 break-all">{name}</td>
              <td className="py-1 font-mono tabular-nums">{typeof value === "number" ? numberText(value) : value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Classifications({ output }: { output: OutputArtifact }) {
  const w = useTexts(pipelineTexts)
  const found = classificationsOf(output.artifact)
  if (!found.length) return <p className="text-[13px] text-muted-foreground">{w("notWritten")}</p>
  const curves = found
    .filter(({ roc }) => roc.length > 0)
    .map(({ slice, roc }) => ({ label: slice ? w("slice", { name: slice }) : output.path, points: roc }))
  return (
    <div className="flex flex-col gap-4">
      {curves.length > 0 && <RocChart curves={curves} />}
      {found.map(
        ({ slice, matrix }) =>
          matrix && <ConfusionMatrix key={slice} matrix={matrix} title={slice && w("slice", { name: slice })} />,
      )}
    </div>
  )
}

export interface RocCurve {
  label: string
  points: RocPoint[]
}

const SIZE = 300
const EDGE = { left: 46, bottom: 38, top: 8, right: 12 }
const TICKS = [0, 0.25, 0.5, 0.75, 1]

/** ROC curves in one chart, with the diagonal of a guess. */
export function RocChart({ curves }: { curves: readonly RocCurve[] }) {
  const w = useTexts(pipelineTexts)
  const dark = useIsDark()
  const title = useId()
  const x = (value: number) => EDGE.left + value * (SIZE - EDGE.left - EDGE.right)
  const y = (value: number) => SIZE - EDGE.bottom - value * (SIZE - EDGE.top - EDGE.bottom)
  return (
    <figure className="flex min-w-0 flex-col gap-2">
      <figcaption className="text-[13px] font-semibold">{w("rocCurve")}</figcaption>
      <svg viewBox={`0 0 ${SIZE} ${SIZE}`} className="w-full max-w-sm" role="img" aria-labelledby={title}>
        <title id={title}>{w("rocCurve")}</title>
        {TICKS.map((tick) => (
          <g key={tick} className="fill-muted-foreground text-[10px]">
            <line x1={x(tick)} x2={x(tick)} y1={y(0)} y2={y(1)} stroke="var(--border)" />
            <line x1={x(0)} x2={x(1)} y1={y(tick)} y2={y(tick)} stroke="var(--border)" />
            <text x={x(tick)} y={y(0) + 13} textAnchor="middle">
              {tick}
            </text>
            <text x={x(0) - 5} y={y(tick) + 3} textAnchor="end">
              {tick}
            </text>
          </g>
        ))}
        <text x={x(0.5)} y={SIZE - 6} textAnchor="middle" className="fill-muted-foreground text-[11px]">
          {w("rocAxisX")}
        </text>
        <text
          transform={`translate(11 ${y(0.5)}) rotate(-90)`}
          textAnchor="middle"
          className="fill-muted-foreground text-[11px]"
        >
          {w("rocAxisY")}
        </text>
        <line x1={x(0)} y1={y(0)} x2={x(1)} y2={y(1)} stroke="var(--edge)" strokeDasharray="4 4" />
        {curves.map(({ label, points }, index) => (
          <polyline
            key={label}
            points={points.map((point) => `${x(point.x)},${y(point.y)}`).join(" ")}
            fill="none"
            stroke={colorOf(index, dark)}
            strokeWidth={1.8}
          />
        ))}
      </svg>
      <ul className="flex flex-col text-xs">
        {curves.map(({ label, points }, index) => {
          const area = areaBelow(points)
          return (
            <li key={label} className="flex items-center gap-2">
              <span aria-hidden className="w-4 shrink-0 border-t-2" style={{ borderColor: colorOf(index, dark) }} />
              <span className="min-w-0 break-all">{label}</span>
              {area !== undefined && (
                <span className="text-muted-foreground tabular-nums">{w("area", { area: area.toFixed(3) })}</span>
              )}
            </li>
          )
        })}
      </ul>
    </figure>
  )
}

/** Rows are the true classes. The more often a cell occurs in its row, the darker it is. */
export function ConfusionMatrix({ matrix, title }: { matrix: Matrix; title?: string }) {
  const w = useTexts(pipelineTexts)
  const cell = "border px-2 py-1 text-center tabular-nums"
  const head = "border px-2 py-1 font-medium text-muted-foreground"
  return (
    <figure className="flex min-w-0 flex-col gap-2">
      <figcaption className="text-[13px] font-semibold">
        {w("confusionMatrix")}
        {title && <span className="ml-2 font-normal text-muted-foreground">{title}</span>}
      </figcaption>
      <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={w("confusionMatrix")}>
        <table className="border-collapse text-xs">
          <thead>
            <tr>
              <th scope="col" className={head}>
                {w("matrixCorner")}
              </th>
              {matrix.labels.map((label) => (
                <th key={label} scope="col" className={head}>
                  {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {matrix.rows.map((row, index) => {
              const sum = row.reduce((all, each) => all + each, 0)
              return (
                <tr key={index}>
                  <th scope="row" className={classes(head, "text-left")}>
                    {matrix.labels[index] ?? index}
                  </th>
                  {row.map((count, at) => {
                    const share = sum ? count / sum : 0
                    return (
                      <td
                        key={at}
                        className={cell}
                        style={{
                          background: `color-mix(in oklab, var(--primary) ${Math.round(share * 35)}%, transparent)`,
                        }}
                        title={`${Math.round(share * 100)} %`}
                      >
                        {count}
                      </td>
                    )
                  })}
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
    </figure>
  )
}

/**
 * HTML and Markdown that a task wrote. They come from whoever wrote the component: a page is in a frame without scripts and
 * without an origin, so it can neither read this page nor send requests with the user's session.
 */
function TextContent({ address, name, isHtml }: { address: string; name: string; isHtml?: boolean }) {
  const w = useTexts(pipelineTexts)
  const found = useQuery(artifactTextQuery(address))
  if (failure(found)) {
    const problem = asProblem(found.error)
    return (
      <p className="text-[13px] text-muted-foreground">{w("cannotShow", { reason: problem.said || problem.title })}</p>
    )
  }
  if (found.data === undefined) return <Loading />
  if (!isHtml) return <Markdown text={found.data} />
  return (
    <div className="flex flex-col gap-1">
      <iframe
        sandbox=""
        srcDoc={found.data}
        title={w("htmlFrame", { name })}
        className="h-96 w-full rounded-md border bg-white"
      />
      <p className="text-xs text-muted-foreground">{w("htmlHelp")}</p>
    </div>
  )
}

/** Everything about an artifact: its type, uri, metadata and, if it can be shown, its content. */
export function ArtifactView({ run, output }: { run: string; output: OutputArtifact }) {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const { artifact, key, at, task } = output
  const shown = isShown(output)
  const metadata = Object.entries(artifact.metadata)
  return (
    <div className="flex flex-col gap-2">
      <p className="flex items-center gap-2 text-[13px]">
        <code className="font-mono font-medium break-all">
          {key}
          {at > 0 && `[${at}]`}
        </code>
        <span className="text-muted-foreground">{shortType(typeOf(artifact))}</span>
        <a
          href={artifactAddress(run, task.task_id, key, at)}
          download
          aria-label={`${c("download")}: ${key}`}
          title={c("download")}
          className="ml-auto text-primary"
        >
          <Download className="size-4" aria-hidden />
        </a>
      </p>
      <p className="font-mono text-xs break-all text-muted-foreground">{artifact.uri}</p>
      {shown ? (
        <Visualisation run={run} output={output} />
      ) : (
        metadata.length > 0 && <Values label={w("metadata")} values={artifact.metadata} />
      )}
    </div>
  )
}

/** Names with values of any type. */
export function Values({ label, values }: { label: string; values: Record<string, Value> }) {
  return (
    <dl aria-label={label} className="flex flex-col gap-1.5">
      {Object.entries(values).map(([name, value]) => (
        <div key={name}>
          <dt className="font-mono text-[13px] font-medium">{name}</dt>
          <dd className="max-h-48 overflow-auto rounded bg-muted px-2 py-1 font-mono text-xs break-all whitespace-pre-wrap">
            {valueText(value) || "–"}
          </dd>
        </div>
      ))}
    </dl>
  )
}
