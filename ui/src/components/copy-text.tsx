import { Check, Copy } from "lucide-react"
import { useRef, useState } from "react"
import { toClipboard } from "@/lib/clipboard"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { Button } from "./button"
import { Input } from "./form"

/** A text that is to be taken elsewhere. */
export function CopyText({ label, text }: { label: string; text: string }) {
  const w = useWords(commonWords)
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
