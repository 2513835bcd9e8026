import { classes } from "@/lib/classes"

interface Props<T extends string> {
  label: string
  choices: { value: T; label: string }[]
  value: T
  onChange: (value: T) => void
}

/** One of a few, all of them in sight. */
export function Segments<T extends string>({ label, choices, value, onChange }: Props<T>) {
  return (
    <div role="group" aria-label={label} className="flex max-w-full overflow-x-auto rounded-md border bg-card p-0.5">
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          onClick={() => onChange(choice.value)}
          className={classes(
            "rounded px-2 py-1 text-[13px] whitespace-nowrap sm:px-3",
            choice.value === value
              ? "bg-accent font-medium text-primary"
              : "text-muted-foreground hover:bg-muted hover:text-foreground",
          )}
        >
          {choice.label}
        </button>
      ))}
    </div>
  )
}
