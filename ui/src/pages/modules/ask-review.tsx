import { useState } from "react"
import { askReview, type Module, type ModuleVersion } from "@/api/modules"
import { Button } from "@/components/button"
import { Dialog } from "@/components/dialog"
import { Field, TextArea } from "@/components/form"
import { ProblemView } from "@/components/problem-view"
import { note } from "@/components/toasts"
import { commonWords } from "@/words/common"
import { moduleWords } from "@/words/modules"
import { useWords } from "@/words/words"

/** So that everybody may use the version. */
export function AskReview({ module, version, close }: { module: Module; version: ModuleVersion; close: () => void }) {
  const w = useWords(moduleWords)
  const c = useWords(commonWords)
  const [message, setMessage] = useState("")
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const ask = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await askReview(module.name, version.number, message)
      note(w("asked"))
      close()
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      onClose={close}
      title={w("askTitle", { name: module.name, n: version.number })}
      actions={
        <>
          <Button onClick={close}>{c("cancel")}</Button>
          <Button look="primary" disabled={busy} onClick={() => void ask()}>
            {w("ask")}
          </Button>
        </>
      }
    >
      <p>{w("askHelp")}</p>
      <Field label={w("askMessage")} optional>
        {(field) => (
          <TextArea {...field} rows={3} value={message} onChange={(event) => setMessage(event.target.value)} />
        )}
      </Field>
      <ProblemView error={error} />
    </Dialog>
  )
}
