/** What the history of a workflow's runs says at a glance. Pure functions. */

export interface PastRun {
  state: string
  started: string | null
  finished: string | null
}

/** Milliseconds; undefined for a run that has not started. */
export function lasted(run: PastRun, now: number): number | undefined {
  if (!run.started) return undefined
  return Math.max(0, (run.finished ? Date.parse(run.finished) : now) - Date.parse(run.started))
}

const LEAST = 0.12

/** The height of each bar, from 0 to 1. The longest run is 1; none is too low to be seen. */
export function heights(runs: readonly PastRun[], now: number): number[] {
  const all = runs.map((run) => lasted(run, now) ?? 0)
  const longest = Math.max(...all, 1)
  return all.map((each) => Math.max(LEAST, each / longest))
}

/** How many percent of the runs that succeeded or failed have succeeded; undefined if none did either. */
export function successRate(runs: readonly PastRun[]): number | undefined {
  const ended = runs.filter(({ state }) => state === "succeeded" || state === "failed")
  if (!ended.length) return undefined
  return Math.round((100 * ended.filter(({ state }) => state === "succeeded").length) / ended.length)
}

/** The median duration of the runs that succeeded, in milliseconds: those that failed say little about it. */
export function medianDuration(runs: readonly PastRun[]): number | undefined {
  const all = runs
    .filter(({ state, finished }) => state === "succeeded" && finished)
    .map((run) => lasted(run, 0) ?? 0)
    .sort((one, other) => one - other)
  if (!all.length) return undefined
  const middle = Math.floor(all.length / 2)
  const upper = all[middle] as number
  return all.length % 2 ? upper : ((all[middle - 1] as number) + upper) / 2
}
