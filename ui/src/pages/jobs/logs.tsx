/** The logs of several replicas side by side. */

import { useState } from "react"
import { type JobDetail, type JobMember, type JobPlace, type JobRole, jobLog } from "@/api/jobs"
import { Button } from "@/components/button"
import { Input, Tick } from "@/components/form"
import { LogView } from "@/components/log-view"
import { TerminalButton } from "@/components/terminal-button"
import { jobTexts } from "@/i18n/jobs"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { JobStateBadge } from "./badges"

const MOST = 4

export function allMembers(roles: JobRole[]): JobMember[] {
  return roles.flatMap((role) => role.members)
}

/** The Pods whose logs matter most: those that failed, otherwise the first of each role. */
export function podsToShowFirst(roles: JobRole[]): string[] {
  const members = allMembers(roles)
  const failed = members.filter(
    (member) => member.state === "failed" || (member.restarts > 0 && member.state !== "succeeded"),
  )
  const first = roles.flatMap((role) => role.members.slice(0, 1))
  return (failed.length ? failed : first.length > 1 ? first : members)
    .slice(0, failed.length ? MOST : 2)
    .map((member) => member.pod)
}

/** The Pods in the address that exist; the most important ones if the address has none. */
export function chosenPods(roles: JobRole[], written: string | undefined): string[] {
  if (written === undefined) return podsToShowFirst(roles)
  const known = new Set(allMembers(roles).map((member) => member.pod))
  return written.split(",").filter((pod) => known.has(pod))
}

interface Props {
  job: JobDetail
  place: JobPlace
  chosen: string[]
  choose: (pods: string[]) => void
}

/** The logs of some replicas side by side, with a common search and follow mode. */
export function Logs({ job, place, chosen, choose }: Props) {
  const w = useTexts(jobTexts)
  const [search, setSearch] = useState("")
  const [follow, setFollow] = useState(true)
  const members = allMembers(job.roles)
  const shown = members.filter((member) => chosen.includes(member.pod))
  const toggle = (pod: string) =>
    choose(members.map((each) => each.pod).filter((each) => chosen.includes(each) !== (each === pod)))
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <div
          role="group"
          aria-label={w("chooseReplicas")}
          className="flex max-h-28 min-w-0 flex-wrap gap-1.5 overflow-y-auto p-0.5"
        >
          {members.map((member) => (
            <button
              key={member.pod}
              type="button"
              aria-pressed={chosen.includes(member.pod)}
              onClick={() => toggle(member.pod)}
              className={classes(
                "flex items-center gap-1.5 rounded-full border px-2.5 py-0.5 font-mono text-xs",
                chosen.includes(member.pod)
                  ? "border-primary bg-accent text-primary"
                  : "bg-card text-muted-foreground hover:bg-muted",
              )}
            >
              <span aria-hidden className={classes("size-2 rounded-full", DOTS[member.state])} />
              {short(member.pod, job.name)}
            </button>
          ))}
        </div>
        {members.length > 2 && (
          <Button
            size="small"
            look="ghost"
            onClick={() => choose(shown.length === members.length ? [] : members.map((member) => member.pod))}
          >
            {shown.length === members.length ? w("none") : w("all")}
          </Button>
        )}
        <div className="ml-auto flex items-center gap-3">
          <Input
            type="search"
            className="h-8 w-52"
            aria-label={w("searchLogs")}
            placeholder={w("searchLogs")}
            value={search}
            onChange={(event) => setSearch(event.target.value)}
          />
          <Tick label={w("follow")} checked={follow} onChange={(event) => setFollow(event.target.checked)} />
        </div>
      </div>
      {shown.length === 0 && (
        <p className="rounded-lg border border-dashed p-8 text-center text-muted-foreground">{w("noneChosen")}</p>
      )}
      <div
        className={classes("grid gap-3", shown.length > 1 && "lg:grid-cols-2", shown.length > 4 && "2xl:grid-cols-3")}
      >
        {shown.map((member) => (
          <section
            key={member.pod}
            aria-label={member.pod}
            className={classes(
              "flex min-w-0 flex-col overflow-hidden rounded-lg border bg-card",
              shown.length > 2 ? "h-80" : "h-[calc(100vh-20rem)] min-h-80",
            )}
          >
            <h2 className="flex items-center gap-2 border-b px-3 py-1.5 text-[13px]">
              <code className="min-w-0 truncate font-mono">{member.pod}</code>
              <JobStateBadge state={member.state} />
              {member.host && <span className="ml-auto truncate font-normal text-muted-foreground">{member.host}</span>}
              {member.state === "running" && <TerminalButton place={{ namespace: job.namespace, pod: member.pod }} />}
            </h2>
            <div className="min-h-0 flex-1">
              <LogView
                // A restarted Pod has another log.
                key={`${member.uid} ${member.restarts}`}
                source={jobLog(place, member.pod)}
                over={ENDED.includes(member.state)}
                shared={{ search, follow, setFollow }}
                label={w("logOf", { pod: member.pod })}
                empty={member.state === "gone" ? w("logGone") : undefined}
              />
            </div>
          </section>
        ))}
      </div>
    </div>
  )
}

/** The log of a Pod that is gone may have been kept. */
const ENDED: JobMember["state"][] = ["succeeded", "failed", "gone"]

const DOTS: Record<JobMember["state"], string> = {
  waiting: "border border-input",
  running: "bg-fill-running",
  succeeded: "bg-fill-succeeded",
  failed: "bg-fill-failed",
  gone: "bg-muted-foreground/40",
}

function short(pod: string, job: string): string {
  return pod.startsWith(`${job}-`) ? pod.slice(job.length + 1) : pod
}
