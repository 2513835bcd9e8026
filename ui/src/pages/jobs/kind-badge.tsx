import { classes } from "@/lib/classes"
import { kindLook, kindTitle } from "@/lib/job-kinds"

export function KindBadge({ kind, word }: { kind: string; word: string }) {
  const look = kindLook(word)
  return (
    <span className="inline-flex items-center gap-2 whitespace-nowrap" title={kindTitle(kind, word)}>
      <span
        aria-hidden
        className={classes(
          "grid size-6 place-items-center rounded font-mono text-[11px] font-semibold",
          look.className,
        )}
      >
        {look.letters}
      </span>
      {kind}
      {kindTitle(kind, word) !== kind && <span className="text-[13px] text-muted-foreground">PaddleCloud</span>}
    </span>
  )
}
