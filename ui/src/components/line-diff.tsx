/** The difference between two texts, line by line. */
import { useMemo } from "react"
import { reviewTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"

export interface DiffLine {
  sign: " " | "+" | "-"
  text: string
}

/** Unchanged lines that are hidden. */
export interface Skipped {
  sign: "skipped"
  count: number
}

/** The largest table of line pairs; longer texts are shown as replaced. */
const MOST_CELLS = 4_000_000

/** The changes between two texts, line by line. */
export function diffLines(before: string, after: string): DiffLine[] {
  const old = before === "" ? [] : before.split("\n")
  const now = after === "" ? [] : after.split("\n")
  let head = 0
  while (head < old.length && head < now.length && old[head] === now[head]) head++
  let tail = 0
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++
  return [
    ...signed(" ", old.slice(0, head)),
    ...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail)),
    ...signed(" ", old.slice(old.length - tail)),
  ]
}

/** Keeps a few lines around each change and counts the rest. */
export function hideUnchanged(lines: DiffLine[], around = 3): (DiffLine | Skipped)[] {
  const near = new Uint8Array(lines.length)
  lines.forEach(({ sign }, index) => {
    if (sign !== " ") near.fill(1, Math.max(0, index - around), index + around + 1)
  })
  const kept: (DiffLine | Skipped)[] = []
  lines.forEach((line, index) => {
    const last = kept.at(-1)
    if (near[index]) kept.push(line)
    else if (last?.sign === "skipped") last.count++
    else kept.push({ sign: "skipped", count: 1 })
  })
  return kept
}

function signed(sign: DiffLine["sign"], texts: string[]): DiffLine[] {
  return texts.map((text) => ({ sign, text }))
}

function middle(old: string[], now: string[]): DiffLine[] {
  if (old.length * now.length > MOST_CELLS) return [...signed("-", old), ...signed("+", now)]
  const lengths = longest(old, now)
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push({ sign: " ", text: old[i] as string })
      i++
      j++
    } else if (j >= now.length || (i < old.length && (lengths[i + 1]?.[j] ?? 0) >= (lengths[i]?.[j + 1] ?? 0))) {
      lines.push({ sign: "-", text: old[i++] as string })
    } else {
      lines.push({ sign: "+", text: now[j++] as string })
    }
  }
  return lines
}

/** The lengths of the longest common subsequences from each pair of lines on. */
function longest(old: string[], now: string[]): Uint32Array[] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Uint32Array(now.length + 1))
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--) {
      const [row, below] = [lengths[i] as Uint32Array, lengths[i + 1] as Uint32Array]
      row[j] = old[i] === now[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0)
    }
  return lengths
}

/** Shows the difference between two texts. */
export function LineDiff({ before, after }: { before: string; after: string }) {
  const w = useTexts(reviewTexts)
  const lines = useMemo(() => hideUnchanged(diffLines(before, after)), [before, after])
  if (!lines.length) return null
  return (
    <pre className="overflow-x-auto border-t py-1.5 font-mono text-[13px] leading-5" tabIndex={0}>
      {lines.map((line, index) =>
        line.sign === "skipped" ? (
          <div key={index} className="bg-muted/60 px-3 py-0.5 text-muted-foreground">
            {w("unchangedLines", { n: line.count })}
          </div>
        ) : (
          <div
            key={index}
            className={classes(
              "px-3",
              line.sign === "+" && "bg-succeeded/10 text-succeeded",
              line.sign === "-" && "bg-failed/10 text-failed",
            )}
          >
            <span aria-hidden={line.sign === " "} className="mr-2 inline-block w-3 select-none">
              {line.sign}
            </span>
            {line.text}
          </div>
        ),
      )}
    </pre>
  )
}
