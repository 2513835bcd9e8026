/** The panel of one node of a Workflow. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { Download } from "lucide-react"
import { lazy, Suspense, useState } from "react"
import {
  type ArgoNodeDetail,
  type ArgoPlace,
  argoLog,
  argoNodeEventsQuery,
  argoNodePodsQuery,
  argoNodeQuery,
  argoOutputAddress,
} from "@/api/argo"
import { failure } from "@/api/problem"
import { PreviewButton } from "@/components/artifact-preview"
import { StateBadge } from "@/components/badge"
import { Loading, ProblemView } from "@/components/feedback"
import { Select } from "@/components/form"
import { LogView } from "@/components/log-view"
import { Tabs } from "@/components/tabs"
import { Duration } from "@/components/time"
import { SECTIONS } from "@/graph/node-fields"
import { commonTexts } from "@/i18n/common"
import { metricTexts } from "@/i18n/metrics"
import { runTexts } from "@/i18n/runs"
import { useTexts, useTranslate } from "@/i18n/translate"
import { Block, None, OVER, PodEvents, PodList, Value } from "./node-panel"

const route = getRouteApi("/shell/runs/argo/$namespace/$name")
const PodUsagePanel = lazy(() =>
  import("@/components/pod-usage").then(({ PodUsagePanel }) => ({ default: PodUsagePanel })),
)

export function ArgoNodePanel({ place, node: id }: { place: ArgoPlace; node: string }) {
  const w = useTexts(runTexts)
  const m = useTexts(metricTexts)
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(argoNodeQuery(place, id))
  if (failure(found))
    return (
      <div className="p-4">
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </div>
    )
  if (!found.data) return <Loading />
  const node = found.data
  const tabs = [
    { id: "log", label: w("logs"), content: <Logs place={place} node={node} /> },
    { id: "io", label: w("inputsOutputs"), content: <InputsOutputs place={place} node={node} /> },
    { id: "details", label: w("details"), content: <Details node={node} /> },
    { id: "containers", label: w("containers"), content: <Containers place={place} node={id} /> },
    {
      id: "usage",
      label: m("usage"),
      content: (
        <div className="p-4">
          <Suspense fallback={<Loading />}>
            <PodUsagePanel of={{ workflow: place, node: id }} goes={!OVER.has(node.state)} />
          </Suspense>
        </div>
      ),
    },
    { id: "events", label: w("events"), content: <Events place={place} node={id} /> },
  ]
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex items-center gap-2 px-4 py-2.5">
        <h2 className="truncate" title={node.path}>
          {node.name}
        </h2>
        <StateBadge state={node.state} />
        <span className="ml-auto text-[13px] text-muted-foreground">
          <Duration started={node.started} finished={node.finished} />
        </span>
      </div>
      {node.message && <p className="px-4 pb-2 text-[13px] break-words text-muted-foreground">{node.message}</p>}
      <Tabs
        className="flex-1"
        tabs={tabs}
        value={tabs.some((each) => each.id === tab) ? tab : "log"}
        onChange={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
        inside="overflow-y-auto"
      />
    </div>
  )
}

function Logs({ place, node }: { place: ArgoPlace; node: ArgoNodeDetail }) {
  const w = useTexts(runTexts)
  const [chosen, setChosen] = useState(0)
  const attempt = node.attempts.find((each) => each.number === chosen) ?? node.attempts.at(-1)
  if (!attempt?.pod)
    return (
      <div className="p-4">
        <None text={w(attempt ? "noPod" : "logEmpty")} />
      </div>
    )
  return (
    <div className="flex h-full min-h-0 flex-col">
      {node.attempts.length > 1 && (
        <div className="border-b p-2">
          <Select
            aria-label={w("attempts")}
            className="h-8 w-auto"
            value={attempt.number}
            onChange={(event) => setChosen(Number(event.target.value))}
          >
            {node.attempts.map((each) => (
              <option key={each.number} value={each.number}>
                {w("attempt", { n: each.number })} · {w(each.state)}
              </option>
            ))}
          </Select>
        </div>
      )}
      <div className="min-h-0 flex-1">
        <LogView
          key={attempt.id}
          source={argoLog(place, node.id, chosen ? attempt.number : undefined)}
          over={OVER.has(attempt.state)}
        />
      </div>
    </div>
  )
}

function InputsOutputs({ place, node }: { place: ArgoPlace; node: ArgoNodeDetail }) {
  const text = useTranslate()
  const w = useTexts(runTexts)
  const c = useTexts(commonTexts)
  const missing = w(OVER.has(node.state) ? "notWritten" : "notReady")
  return (
    <>
      <Block title={text(SECTIONS.inputs)}>
        {node.inputs.length === 0 && <None />}
        {node.inputs.map(({ name, value, path }) => (
          <div key={name}>
            <code className="font-mono text-[13px] font-medium">{name}</code>
            <Value>{value ?? (path || missing)}</Value>
          </div>
        ))}
      </Block>
      <Block title={text(SECTIONS.outputs)}>
        {node.outputs.length === 0 && <None />}
        {node.outputs.map(({ name, type, value, path }) => (
          <div key={name}>
            <p className="flex items-center gap-2 text-[13px]">
              <code className="font-mono font-medium">{name}</code>
              {type === "file" && (
                <span className="ml-auto">
                  <PreviewButton name={name} path={path} address={argoOutputAddress(place, node.id, name)} />
                </span>
              )}
              {type === "file" && (
                <a
                  href={argoOutputAddress(place, node.id, name)}
                  download
                  aria-label={`${c("download")}: ${name}`}
                  className="text-primary"
                >
                  <Download className="size-4" aria-hidden />
                </a>
              )}
            </p>
            <Value>{value ?? (path || missing)}</Value>
          </div>
        ))}
      </Block>
    </>
  )
}

function Details({ node }: { node: ArgoNodeDetail }) {
  const w = useTexts(runTexts)
  return (
    <>
      <Block title={w("attempts")}>
        {node.attempts.length === 0 && <None />}
        {node.attempts.map((attempt) => (
          <div key={attempt.id} className="flex flex-wrap items-center gap-2 text-[13px]">
            <span className="font-medium">{w("attempt", { n: attempt.number })}</span>
            <StateBadge state={attempt.state} />
            {attempt.exit_code && <span>{w("exitCode", { code: attempt.exit_code })}</span>}
            {attempt.host && <span className="text-muted-foreground">{attempt.host}</span>}
            <span className="ml-auto text-muted-foreground">
              <Duration started={attempt.started} finished={attempt.finished} />
            </span>
            {attempt.message && <p className="w-full break-words text-muted-foreground">{attempt.message}</p>}
          </div>
        ))}
      </Block>
      <Block title={`${w("template")}: ${node.template}`}>
        <Value>{JSON.stringify(node.definition, null, 2)}</Value>
      </Block>
    </>
  )
}

function Containers({ place, node }: { place: ArgoPlace; node: string }) {
  return <PodList pods={useQuery(argoNodePodsQuery(place, node))} namespace={place.namespace} />
}

function Events({ place, node }: { place: ArgoPlace; node: string }) {
  return <PodEvents events={useQuery(argoNodeEventsQuery(place, node))} />
}
