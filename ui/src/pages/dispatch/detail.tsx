import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Fragment, type ReactNode } from "react"
import {
  type DispatchEvent,
  type DispatchJobDetail,
  dispatchJobQuery,
  dispatchLog,
  useLiveDispatchJob,
} from "@/api/dispatch"
import { usePreferences } from "@/app/preferences"
import { CodeView } from "@/components/code"
import { DetailPage, Fact, LogFrame, TabbedPage } from "@/components/detail-page"
import { LogView } from "@/components/log-view"
import { Owner } from "@/components/owner"
import { ReasonBanner } from "@/components/reason-banner"
import { Duration, Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { dispatchTexts } from "@/i18n/dispatch"
import { useTexts } from "@/i18n/translate"
import { DispatchActions } from "./actions"
import { DispatchStateBadge, JobState, kindName, Place, Progress, reasonOf } from "./badges"

const route = getRouteApi("/shell/dispatch/$job")

export function DispatchJobPage() {
  const w = useTexts(dispatchTexts)
  const c = useTexts(commonTexts)
  const { job: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(dispatchJobQuery(id))
  const gone = useLiveDispatchJob(id)
  return (
    <DetailPage
      name={found.data?.name ?? id}
      list={{ to: "/dispatch", title: w("title") }}
      found={found}
      deleted={gone && w("wasDeleted")}
    >
      {(job, back) => {
        const tabs = [
          { id: "overview", label: w("overview"), content: <Overview job={job} /> },
          { id: "log", label: w("log"), content: <Log job={job} /> },
          {
            id: "request",
            label: w("request"),
            content: <CodeView label={w("request")} text={JSON.stringify(job.args, null, 2)} />,
          },
        ]
        return (
          <TabbedPage
            title={job.name}
            state={<JobState job={job} />}
            back={back}
            facts={
              <>
                <Place job={job} />
                <Fact label={w("kind")}>{kindName(job.kind, w("container"))}</Fact>
                <Fact label={c("owner")}>
                  <Owner of={job} noneHelp={w("nobodyHelp")} />
                </Fact>
                {job.attempt > 1 && <span>{w("attemptNumber", { n: job.attempt })}</span>}
                <Fact label={w("started")}>
                  <Time at={job.started} />
                </Fact>
                <Fact label={w("duration")}>
                  <Duration started={job.started} finished={job.ended} />
                </Fact>
              </>
            }
            actions={<DispatchActions job={job} open />}
            notice={<Reason job={job} />}
            tabs={tabs}
            tab={search.tab}
            onTab={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
          />
        )
      }}
    </DetailPage>
  )
}

/** Why the job waits, failed, or cannot go on by itself. */
function Reason({ job }: { job: DispatchJobDetail }) {
  const w = useTexts(dispatchTexts)
  const language = usePreferences((all) => all.language)
  if (!job.reason && !job.fault) return null
  if (job.state === "succeeded" || job.state === "running") return null
  const failed = job.state === "failed"
  const title = failed ? w("whyFailed") : job.is_unclear ? w("whyUnclear") : w("whyWaiting")
  return (
    <ReasonBanner title={title} failed={failed} reason={reasonOf(job, language) || job.fault?.message}>
      {job.is_unclear && <p className="text-[13px]">{w("unclearHelp")}</p>}
      {failed && job.fault && (
        <p className="text-[13px] text-muted-foreground">
          <code className="font-mono">{job.fault.code}</code>
          {" · "}
          {job.fault.origin === "job" ? w("originJob") : w("originDispatch")}
          {job.fault.exit_code !== null && ` · ${w("exitCode", { code: job.fault.exit_code })}`}
        </p>
      )}
      {failed && job.fault && job.fault.log_tail.length > 0 && (
        <pre
          aria-label={w("lastLines")}
          tabIndex={0}
          role="region"
          className="mt-2 max-h-48 overflow-auto rounded bg-card p-2 font-mono text-xs"
        >
          {job.fault.log_tail.join("\n")}
        </pre>
      )}
    </ReasonBanner>
  )
}

function Overview({ job }: { job: DispatchJobDetail }) {
  const w = useTexts(dispatchTexts)
  const resources = Object.entries(job.resources).map(([name, value]) => `${name} ${String(value)}`)
  const metrics = Object.entries(job.metrics).map(([name, value]) => `${name} ${value}`)
  return (
    <div className="grid gap-4 xl:grid-cols-[2fr_1fr]">
      <History events={job.events} />
      <div className="flex min-w-0 flex-col gap-4">
        {(job.progress !== null || job.message) && (
          <Card title={w("progress")}>
            <div className="p-3">
              {job.progress !== null && <Progress job={job} />}
              {job.message && <p className="mt-1 text-[13px] break-words">{job.message}</p>}
            </div>
          </Card>
        )}
        <Card title={w("place")}>
          <FactTable
            facts={[
              [w("adapter"), <Place key="place" job={job} />],
              [w("namespace"), job.namespace],
              [w("clusterName"), job.external_name],
              [w("clusterId"), job.external_id],
              [w("clusterState"), job.cluster_status],
              [w("hosts"), job.hosts.join(", ")],
            ]}
          />
          <TrainingJobLink job={job} />
        </Card>
        <Card title={w("settings")}>
          <FactTable
            facts={[
              [w("id"), job.id],
              [w("priority"), String(job.priority)],
              [w("attempt"), String(job.attempt)],
              [w("retries"), String(job.retries)],
              [w("timeout"), job.timeout === null ? "" : w("seconds", { n: job.timeout })],
              [w("resources"), resources.join(", ")],
              [w("metrics"), metrics.join(", ")],
              [w("key"), job.key],
              [w("result"), job.result === null ? "" : JSON.stringify(job.result)],
            ]}
          />
        </Card>
      </div>
    </div>
  )
}

/** Jobs of this cluster that have a page of their own, as long as their object exists. */
function TrainingJobLink({ job }: { job: DispatchJobDetail }) {
  const w = useTexts(dispatchTexts)
  if (!job.namespace || !job.external_id || job.kind === "container") return null
  return (
    <p className="border-t px-3 py-2 text-[13px]">
      <Link
        to="/jobs/$namespace/$kind/$name"
        params={{ namespace: job.namespace, kind: job.kind.toLowerCase(), name: job.external_name }}
        className="text-primary hover:underline"
      >
        {w("openJob")}
      </Link>
    </p>
  )
}

/** The newest change first. */
function History({ events }: { events: DispatchEvent[] }) {
  const w = useTexts(dispatchTexts)
  const language = usePreferences((all) => all.language)
  return (
    <section aria-label={w("history")} className="min-w-0 self-start rounded-lg border bg-card">
      <h2 className="border-b px-3 py-2">{w("history")}</h2>
      <ol className="divide-y">
        {[...events].reverse().map((event, index) => (
          <li key={event.id} className="px-3 py-2 text-[13px]">
            <p className="flex flex-wrap items-center gap-2">
              <DispatchStateBadge state={event.state} past={index > 0} />
              {event.attempt > 0 && (
                <span className="text-muted-foreground">{w("attemptNumber", { n: event.attempt })}</span>
              )}
              <span className="ml-auto">
                <Time at={event.time} />
              </span>
            </p>
            {event.reason && <p className="mt-0.5 break-words">{reasonOf(event, language)}</p>}
          </li>
        ))}
      </ol>
    </section>
  )
}

function Log({ job }: { job: DispatchJobDetail }) {
  const w = useTexts(dispatchTexts)
  const over = job.state === "succeeded" || job.state === "failed" || job.state === "cancelled"
  if (job.attempt === 0) return <p className="text-muted-foreground">{w("noLog")}</p>
  return (
    <LogFrame label={w("log")}>
      <LogView
        key={job.attempt} // another attempt has another log
        source={dispatchLog(job)}
        over={over}
        label={w("logOf", { name: job.name })}
      />
    </LogFrame>
  )
}

function Card({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="rounded-lg border bg-card">
      <h2 className="border-b px-3 py-2">{title}</h2>
      {children}
    </section>
  )
}

/** Facts without a value are left out. */
function FactTable({ facts }: { facts: [name: string, value: ReactNode][] }) {
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 p-3 text-[13px]">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => (
          <Fragment key={name}>
            <dt className="text-muted-foreground">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </Fragment>
        ))}
    </dl>
  )
}
