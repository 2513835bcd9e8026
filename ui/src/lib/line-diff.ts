export interface DiffLine {
  sign: " " | "+" | "-"
  text: string
}

/** What has changed between two texts, line by line. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const old = before === "" ? [] : before.split("\n")
  const now = after === "" ? [] : after.split("\n")
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

/** Of what the texts have in common from each pair of lines on. */
function longest(old: string[], now: string[]): Uint32Array[] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Uint32Array(now.length + 1))
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--) {
      const [row, below] = [lengths[i] as Uint32Array, lengths[i + 1] as Uint32Array]
      row[j] = old[i] === now[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0)
    }
  return lengths
}
