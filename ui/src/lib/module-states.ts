/** States of versions of modules, as the API says them. */
import type { Tone } from "@/components/badge"
import type { moduleWords } from "@/words/modules"

type Word = keyof typeof moduleWords

export const MODULE_STATES: Record<string, { word: Word; tone: Tone }> = {
  building: { word: "building", tone: "running" },
  "build failed": { word: "buildFailed", tone: "failed" },
  private: { word: "private", tone: "waiting" },
  "in review": { word: "inReview", tone: "warning" },
  rejected: { word: "rejected", tone: "failed" },
  published: { word: "published", tone: "succeeded" },
  deprecated: { word: "deprecated", tone: "waiting" },
}

const OWNERS: ReadonlySet<string> = new Set(["private", "in review", "rejected"])

/** Whether somebody may put a version into a new workflow. */
export function canUse(state: string, isOwner: boolean): boolean {
  return state === "published" || (isOwner && OWNERS.has(state))
}
