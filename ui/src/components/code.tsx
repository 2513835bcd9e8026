/** Code: an editor with line numbers and marks, a read-only view, and texts to copy. */

import { Check, Copy } from "lucide-react"
import { type ComponentProps, useMemo, useRef, useState } from "react"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { Button } from "./button"
import { Input } from "./form"

export interface Mark {
  /** The line number, from 1. */
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

/** Moves the cursor to the beginning of a line and scrolls to it. */
export function goToLine(field: HTMLTextAreaElement | null, line: number): void {
  if (!field) return
  const lines = field.value.split("\n")
  const at = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0)
  field.focus()
  field.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0))
  field.scrollTop = Math.max(0, (line - 1) * LINE - field.clientHeight / 2)
}

/** A read-only text with line numbers and a copy button. */
export function CodeView({ label, text, className }: { label: string; text: string; className?: string }) {
  const w = useTexts(commonTexts)
  const [copied, setCopied] = useState(false)
  const numbers = useMemo(
    () => Array.from({ length: text.replace(/\n$/, "").split("\n").length }, (_, index) => index + 1).join("\n"),
    [text],
  )
  const copy = async () => {
    setCopied(await toClipboard(text))
    setTimeout(() => setCopied(false), 2000)
  }
  return (
    <div className={classes("relative rounded-lg border bg-card", className)}>
      <Button size="small" className="absolute top-2 right-3 z-10" onClick={() => void copy()}>
        {copied ? <Check /> : <Copy />}
        <span aria-live="polite">{copied ? w("copied") : w("copy")}</span>
      </Button>
      <div
        role="region"
        aria-label={label}
        tabIndex={0}
        className="flex max-h-[calc(100vh-17rem)] min-h-48 overflow-auto py-2 font-mono text-[13px] leading-5"
      >
        <pre aria-hidden className="sticky left-0 border-r bg-card px-2 text-right text-muted-foreground select-none">
          {numbers}
        </pre>
        <pre className="px-3 pr-24">{text}</pre>
      </div>
    </div>
  )
}

/** A text with a copy button. */
export function CopyText({ label, text }: { label: string; text: string }) {
  const w = useTexts(commonTexts)
  const field = useRef<HTMLInputElement>(null)
  const [copied, setCopied] = useState(false)
  const copy = async () => {
    field.current?.select()
    setCopied(await toClipboard(text))
  }
  return (
    <div className="flex gap-2">
      <Input
        ref={field}
        readOnly
        aria-label={label}
        value={text}
        className="min-w-0 font-mono text-[13px]"
        onFocus={(event) => event.target.select()}
      />
      <Button onClick={() => void copy()}>
        {copied ? <Check /> : <Copy />}
        <span aria-live="polite">{copied ? w("copied") : w("copy")}</span>
      </Button>
    </div>
  )
}

/** The clipboard API needs HTTPS; elsewhere the selection is copied. */
export async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const field = document.createElement("textarea")
    field.value = text
    field.className = "fixed"
    document.body.append(field)
    field.select()
    const done = document.execCommand("copy")
    field.remove()
    return done
  }
}
