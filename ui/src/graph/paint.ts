/** The theme's colours, for what is painted instead of made of elements. */
import type { CardData } from "./node-card"

const NAMES = {
  edge: "--edge",
  ring: "--ring",
  card: "--card",
  border: "--border",
  plain: "--edge",
  waiting: "--input",
  running: "--fill-running",
  succeeded: "--fill-succeeded",
  failed: "--fill-failed",
  wrong: "--destructive",
  doubtful: "--warning",
} as const

export type Colours = Record<keyof typeof NAMES, string>

export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element)
  return Object.fromEntries(
    Object.entries(NAMES).map(([name, variable]) => [name, style.getPropertyValue(variable).trim()]),
  ) as Colours
}

const MARKS = { added: "succeeded", removed: "failed", changed: "doubtful" } as const

export function fillOf({ state, mark, errors, warnings }: CardData, colours: Colours): string {
  if (errors) return colours.wrong
  if (mark) return colours[MARKS[mark]]
  if (state === "running" || state === "succeeded" || state === "failed") return colours[state]
  if (state) return colours.waiting
  return warnings ? colours.doubtful : colours.plain
}
