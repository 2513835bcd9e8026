import { useMemo } from "react"
import { classes } from "@/lib/classes"
import { lineDiff, shortened } from "@/lib/line-diff"
import { reviewWords } from "@/words/modules"
import { useWords } from "@/words/words"

/** What has changed from one text to the other. */
export function DiffLines({ before, after }: { before: string; after: string }) {
  const w = useWords(reviewWords)
  const lines = useMemo(() => shortened(lineDiff(before, after)), [before, after])
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
