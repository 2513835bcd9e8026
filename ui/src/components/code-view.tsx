import { Check, Copy } from "lucide-react"
import { useMemo, useState } from "react"
import { classes } from "@/lib/classes"
import { toClipboard } from "@/lib/clipboard"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { Button } from "./button"

/** A text to read, with the numbers of its lines, that can be taken elsewhere. */
export function CodeView({ label, text, className }: { label: string; text: string; className?: string }) {
  const w = useWords(commonWords)
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
