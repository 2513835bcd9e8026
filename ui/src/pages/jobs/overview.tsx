/** The overview of a job: why it waits or failed, its replicas, its PodGroup and its conditions. */

import { Link } from "@tanstack/react-router"
import { ScrollText } from "lucide-react"
import { type JobDetail, type JobMember, type JobReason, type JobRole, placeOf } from "@/api/jobs"
import { type Language, usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { ReasonBanner } from "@/components/reason-banner"
import { Duration, Time } from "@/components/time"
import { conditionName, jobTexts } from "@/i18n/jobs"
import { statusMessage } from "@/i18n/server-messages"
import { type Translate, useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { PodGroupPhase } from "@/pages/cluster/pod-groups"
import { JobStateBadge } from "./badges"

/** Why the job is waiting or failed: one sentence, then the other reasons. */
export function Reasons({ job }: { job: JobDetail }) {
  const w = useTexts(jobTexts)
  const language = usePreferences((all) => all.language)
  const [first, ...more] = job.reasons
  if (!first) return null
  const failed = job.state === "failed"
  const title = failed
    ? w("whyFailed")
    : job.state === "waiting" || job.state === "suspended"
      ? w("whyWaiting")
      : w("whyNot")
  return (
    <ReasonBanner title={title} failed={failed} reason={reasonSentence(first, w, language)}>
      {more.length > 0 && (
        <ul className="mt-1 list-disc space-y-0.5 pl-4 text-[13px] break-words">
          {more.slice(0, 6).map((reason, index) => (
            <li key={index}>{reasonSentence(reason, w, language)}</li>
          ))}
        </ul>
      )}
    </ReasonBanner>
  )
}

export function reasonSentence(reason: JobReason, w: Translate<keyof typeof jobTexts>, language: Language): string {
  const detail = statusMessage({ message: reason.detail, message_parts: reason.detail_parts }, language)
  if (reason.code === "suspended") return w("reasonSuspended")
  if (reason.code === "gang waits") return w("reasonGang", { detail })
  if (reason.code === "pod" || reason.code === "warning") return w("reasonPod", { about: reason.about, detail })
  return detail
}

const FILLS: Record<JobMember["state"], string> = {
  waiting: "border border-dashed border-input bg-transparent",
  running: "bg-fill-running animate-pulse motion-reduce:animate-none",
  succeeded: "bg-fill-succeeded",
  failed: "bg-fill-failed",
  gone: "bg-muted",
}
const FEW = 32

export function Overview({ job }: { job: JobDetail }) {
  const w = useTexts(jobTexts)
  return (
    <div className="grid gap-4 xl:grid-cols-[2fr_1fr]">
      <section aria-label={w("members")} className="flex min-w-0 flex-col gap-4">
        {job.roles.map((role) => (
          <Role key={role.name} job={job} role={role} />
        ))}
      </section>
      <div className="flex min-w-0 flex-col gap-4">
        <Group job={job} />
        <Conditions job={job} />
      </div>
    </div>
  )
}

function Role({ job, role }: { job: JobDetail; role: JobRole }) {
  const w = useTexts(jobTexts)
  return (
    <div className="rounded-lg border bg-card">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2 border-b px-3 py-2">
        <h2>
          {role.name} <span className="font-normal text-muted-foreground">× {role.replicas}</span>
        </h2>
        <div aria-hidden className="flex max-w-full flex-wrap gap-1">
          {role.members.slice(0, 256).map((member) => (
            <span
              key={member.pod}
              title={`${member.pod}: ${w(member.state)}`}
              className={classes("size-3 rounded-sm", FILLS[member.state])}
            />
          ))}
        </div>
        <span className="ml-auto text-[13px] text-muted-foreground">
          {w("restartPolicy", { policy: role.restart })}
        </span>
      </div>
      <Members job={job} role={role} />
    </div>
  )
}

function Members({ job, role }: { job: JobDetail; role: JobRole }) {
  const w = useTexts(jobTexts)
  const language = usePreferences((all) => all.language)
  // Of very many replicas, only those with a problem get a row.
  const worst = role.members.filter((member) => member.message || member.restarts > 0)
  const shown = role.members.length > FEW ? [...new Set([...worst, ...role.members])].slice(0, FEW) : role.members
  return (
    <div className="relative overflow-x-auto" tabIndex={0} role="region" aria-label={`${w("members")}: ${role.name}`}>
      <table className="table-or-cards w-full border-collapse text-left">
        <thead>
          <tr className="border-b text-[13px] text-muted-foreground [&>th]:px-3 [&>th]:py-1.5 [&>th]:font-medium [&>th]:whitespace-nowrap">
            <th scope="col">{w("pod")}</th>
            <th scope="col">{w("state")}</th>
            <th scope="col">{w("restarts")}</th>
            <th scope="col">{w("node")}</th>
            <th scope="col">{w("duration")}</th>
            <th scope="col">
              <span className="sr-only">{w("logs")}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((member) => (
            <tr key={member.pod} className="border-b align-top last:border-0 hover:bg-muted/50 [&>td]:px-3 [&>td]:py-2">
              <td data-name>
                <code className="font-mono text-[13px] sm:whitespace-nowrap">{member.pod}</code>
                {member.message && (
                  <p className="max-w-xl text-[13px] break-words text-muted-foreground">
                    {statusMessage(member, language)}
                  </p>
                )}
              </td>
              <td data-label={w("state")} className="whitespace-nowrap">
                <JobStateBadge state={member.state} />
                {member.exit_code ? (
                  <span className="ml-2 text-[13px]">{`${w("exitCode")} ${member.exit_code}`}</span>
                ) : null}
              </td>
              <td data-label={w("restarts")} className="tabular-nums">
                {member.restarts}
              </td>
              <td data-label={w("node")} className="whitespace-nowrap">
                {member.host || "–"}
              </td>
              <td data-label={w("duration")}>
                <Duration
                  started={member.started}
                  finished={member.finished ?? (member.state === "running" ? null : member.started)}
                />
              </td>
              <td className="w-px text-right">
                {member.uid && (
                  <Button asChild look="ghost" size="icon">
                    <Link
                      to="/jobs/$namespace/$kind/$name"
                      params={placeOf(job)}
                      search={{ tab: "logs", pods: member.pod }}
                      aria-label={w("openLog", { pod: member.pod })}
                      title={w("openLog", { pod: member.pod })}
                    >
                      <ScrollText />
                    </Link>
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Group({ job }: { job: JobDetail }) {
  const w = useTexts(jobTexts)
  const language = usePreferences((all) => all.language)
  const group = job.group
  return (
    <section aria-label={w("group")} className="rounded-lg border bg-card">
      <h2 className="flex items-center gap-2 border-b px-3 py-2">
        {w("group")}
        {group && <PodGroupPhase phase={group.phase} />}
      </h2>
      {!group && <p className="p-3 text-[13px] text-muted-foreground">{w(job.gang ? "groupGone" : "noGroup")}</p>}
      {group && (
        <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 p-3 text-[13px]">
          <dt className="text-muted-foreground">{w("groupMembers")}</dt>
          <dd>{group.members}</dd>
          <dt className="text-muted-foreground">{w("groupQueue")}</dt>
          <dd>{group.queue || "–"}</dd>
          {group.message && (
            <>
              <dt className="text-muted-foreground">{w("groupWaits")}</dt>
              <dd className="break-words">{statusMessage(group, language)}</dd>
            </>
          )}
        </dl>
      )}
    </section>
  )
}

function Conditions({ job }: { job: JobDetail }) {
  const w = useTexts(jobTexts)
  const language = usePreferences((all) => all.language)
  return (
    <section aria-label={w("conditions")} className="rounded-lg border bg-card">
      <h2 className="border-b px-3 py-2">{w("conditions")}</h2>
      {job.conditions.length === 0 && <p className="p-3 text-[13px] text-muted-foreground">{w("noConditions")}</p>}
      <ol className="divide-y">
        {[...job.conditions].reverse().map((condition) => {
          const holds = condition.status === "True"
          return (
            <li key={condition.type} className={classes("px-3 py-2 text-[13px]", !holds && "text-muted-foreground")}>
              <p className="flex flex-wrap items-center gap-2">
                <span className="font-medium">{conditionName(condition.type, w)}</span>
                <Badge tone={holds ? "primary" : "plain"}>{holds ? w("conditionTrue") : w("conditionFalse")}</Badge>
                <span className="ml-auto">
                  <Time at={condition.since} />
                </span>
              </p>
              {condition.message && <p className="break-words">{statusMessage(condition, language)}</p>}
            </li>
          )
        })}
      </ol>
    </section>
  )
}
