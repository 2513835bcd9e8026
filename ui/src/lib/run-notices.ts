/** Which changes of runs are worth a notification. Pure functions. */

export type NoticeChoice = "off" | "failed" | "all"

export interface ChangedRun {
  id: string
  name: string
  state: string
  owner_id: string
  retries: number
  message: string
}

const ENDED = new Set(["succeeded", "failed", "stopped"])

/**
 * Remembers the runs that are active, so that each causes one notification, when it ends. An event about a run that
 * ended before, such as a change of its name, causes none.
 */
export class RunNotices {
  private readonly going = new Set<string>()

  /** Runs that are active when the page is opened. */
  goOn(runs: readonly { id: string }[]): void {
    for (const { id } of runs) this.going.add(id)
  }

  /** Whether this change causes a notification. */
  isNews(run: ChangedRun, user: string, choice: NoticeChoice): boolean {
    if (run.owner_id !== user) return false
    if (!ENDED.has(run.state)) {
      this.going.add(run.id)
      return false
    }
    const went = this.going.delete(run.id)
    return went && (choice === "all" || (choice === "failed" && run.state === "failed"))
  }
}
