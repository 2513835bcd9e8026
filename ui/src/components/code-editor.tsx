/** A text with the numbers of its lines, and marks at some of them. */
import { type ComponentProps, useMemo, useRef } from "react"
import { classes } from "@/lib/classes"

export interface Mark {
  /** From 1. */
  line: number
  tone: "error" | "warning"
  text: string
}

interface Props extends Omit<ComponentProps<"textarea">, "value" | "onChange" | "wrap"> {
  value: string
  onChange?: (value: string) => void
  marks?: Mark[]
}

const LINE = 20
const PADDING = 8

export function CodeEditor({ value, onChange, marks = [], className, ref, ...rest }: Props) {
  const gutter = useRef<HTMLDivElement>(null)
  const back = useRef<HTMLDivElement>(null)
  const count = useMemo(() => value.split("\n").length, [value])
  const byLine = useMemo(() => {
    const found = new Map<number, Mark>()
    for (const mark of marks) if (found.get(mark.line)?.tone !== "error") found.set(mark.line, mark)
    return found
  }, [marks])
  const follow = (top: number) => {
    for (const layer of [gutter.current, back.current]) if (layer) layer.style.transform = `translateY(${-top}px)`
  }
  return (
    <div
      className={classes(
        "relative flex min-h-0 overflow-hidden rounded-md border border-input bg-card font-mono text-[13px] leading-5",
        "focus-within:outline-2 focus-within:outline-offset-2 focus-within:outline-ring",
        className,
      )}
    >
      <div
        aria-hidden
        className="w-12 shrink-0 overflow-hidden border-r bg-muted/50 text-right text-muted-foreground select-none"
      >
        <div ref={gutter} style={{ paddingBlock: PADDING }}>
          {Array.from({ length: count }, (_, index) => {
            const mark = byLine.get(index + 1)
            return (
              <div
                key={index}
                title={mark?.text}
                data-mark={mark?.tone}
                className={classes(
                  "h-5 pr-2",
                  mark?.tone === "error" && "bg-destructive font-semibold text-destructive-foreground",
                  mark?.tone === "warning" && "bg-warning/25 font-semibold text-foreground",
                )}
              >
                {index + 1}
              </div>
            )
          })}
        </div>
      </div>
      <div className="relative min-w-0 flex-1 overflow-hidden">
        <div ref={back} aria-hidden className="absolute inset-x-0 top-0">
          {[...byLine.values()].map((mark) => (
            <div
              key={mark.line}
              className={classes(
                "absolute inset-x-0 h-5",
                mark.tone === "error" ? "bg-destructive/10" : "bg-warning/10",
              )}
              style={{ top: PADDING + (mark.line - 1) * LINE }}
            />
          ))}
        </div>
        <textarea
          ref={ref}
          spellCheck={false}
          autoCapitalize="off"
          autoCorrect="off"
          wrap="off"
          readOnly={!onChange}
          value={value}
          onChange={(event) => onChange?.(event.target.value)}
          onScroll={(event) => follow(event.currentTarget.scrollTop)}
          className="absolute inset-0 size-full resize-none overflow-auto bg-transparent px-3 whitespace-pre outline-none"
          style={{ paddingBlock: PADDING }}
          {...rest}
        />
      </div>
    </div>
  )
}

/** Puts the cursor at the beginning of a line, and the line into sight. */
export function goToLine(field: HTMLTextAreaElement | null, line: number): void {
  if (!field) return
  const lines = field.value.split("\n")
  const at = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0)
  field.focus()
  field.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0))
  field.scrollTop = Math.max(0, (line - 1) * LINE - field.clientHeight / 2)
}
