/** Choosing runs and jobs for a comparison of their metrics, in their lists. */
import { Link } from "@tanstack/react-router"
import { joinSubjects, MOST_COMPARED, useCompared } from "@/api/metrics"
import { Button } from "@/components/button"
import type { Column } from "@/components/data-table"
import { metricTexts } from "@/i18n/metrics"
import { type Translate, useTexts } from "@/i18n/translate"

/** A column of ticks. `subject` is how the comparison names a row; undefined for one that cannot be compared. */
export function compareColumn<T>(
  w: Translate<keyof typeof metricTexts>,
  subject: (row: T) => { subject: string; name: string } | undefined,
): Column<T> {
  return {
    id: "compare",
    header: w("compare"),
    hideHeader: true,
    className: "w-8 pr-0",
    cell: (row) => {
      const found = subject(row)
      return found && <CompareTick {...found} />
    },
  }
}

function CompareTick({ subject, name }: { subject: string; name: string }) {
  const w = useTexts(metricTexts)
  const { chosen, toggle } = useCompared()
  const ticked = chosen.has(subject)
  return (
    <input
      type="checkbox"
      className="size-4 align-middle accent-primary"
      aria-label={w("compareOne", { name })}
      checked={ticked}
      disabled={!ticked && chosen.size >= MOST_COMPARED}
      onChange={() => toggle(subject, name)}
    />
  )
}

/** Leads to the comparison, once something is chosen. */
export function CompareBar() {
  const w = useTexts(metricTexts)
  const { chosen, clear } = useCompared()
  if (!chosen.size) return null
  return (
    <div className="sticky bottom-3 z-10 flex w-fit items-center gap-2 self-center rounded-lg border bg-card p-2 shadow-lg">
      <Button asChild look="primary">
        <Link to="/compare" search={{ of: joinSubjects(chosen.keys()) }}>
          {w("compareCount", { n: chosen.size })}
        </Link>
      </Button>
      <Button look="ghost" onClick={clear}>
        {w("clear")}
      </Button>
    </div>
  )
}
