/** The members of a job: who is to be looked at first. */
import type { JobMember, JobRole } from "@/api/jobs"

const MOST = 4

export function allMembers(roles: JobRole[]): JobMember[] {
  return roles.flatMap((role) => role.members)
}

/** Those whose logs tell most: the ones that failed; else the first of each role, for as many as fit beside each other. */
export function tellingPods(roles: JobRole[]): string[] {
  const members = allMembers(roles)
  const failed = members.filter(
    (member) => member.state === "failed" || (member.restarts > 0 && member.state !== "succeeded"),
  )
  const first = roles.flatMap((role) => role.members.slice(0, 1))
  return (failed.length ? failed : first.length > 1 ? first : members)
    .slice(0, failed.length ? MOST : 2)
    .map((member) => member.pod)
}

/** Of the pods that an address names, those that there are; the telling ones if it names none. */
export function chosenPods(roles: JobRole[], written: string | undefined): string[] {
  if (written === undefined) return tellingPods(roles)
  const known = new Set(allMembers(roles).map((member) => member.pod))
  return written.split(",").filter((pod) => known.has(pod))
}
