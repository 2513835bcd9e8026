import { useState } from "react"
import { decideReview, type Review } from "@/api/modules"
import { asProblem } from "@/api/problem"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { Dialog } from "@/components/dialog"
import { Field, TextArea } from "@/components/form"
import { ProblemView } from "@/components/problem-view"
import { note } from "@/components/toasts"
import { commonWords } from "@/words/common"
import { problemSentence } from "@/words/graph-problems"
import { moduleWords, reviewWords } from "@/words/modules"
import { useWords } from "@/words/words"

export type Decision = "approve" | "reject" | "withdraw"

export function Decide({ review, decision, close }: { review: Review; decision: Decision; close: () => void }) {
  const w = useWords(reviewWords)
  const m = useWords(moduleWords)
  const c = useWords(commonWords)
  const language = usePreferences((all) => all.language)
  const [reason, setReason] = useState("")
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const what = { name: review.module_name, n: review.number }
  const decide = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await decideReview(review.id, decision, reason)
      note(
        decision === "withdraw" ? w("withdrawnNow") : w(decision === "approve" ? "approvedNow" : "rejectedNow", what),
      )
      close()
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  const texts = {
    approve: { title: w("approveTitle", what), help: w("approveHelp"), action: w("approve") },
    reject: { title: w("rejectTitle", what), help: w("rejectHelp"), action: w("reject") },
    withdraw: { title: m("withdrawTitle"), help: m("withdrawHelp"), action: m("withdraw") },
  }[decision]
  const fault = error ? asProblem(error).fields.find(({ field }) => field === "reason") : undefined
  return (
    <Dialog
      open
      onClose={close}
      title={texts.title}
      actions={
        <>
          <Button onClick={close}>{c("cancel")}</Button>
          <Button look={decision === "reject" ? "danger" : "primary"} disabled={busy} onClick={() => void decide()}>
            {texts.action}
          </Button>
        </>
      }
    >
      <p>{texts.help}</p>
      {decision !== "withdraw" && (
        <Field
          label={w(decision === "reject" ? "reason" : "comment")}
          optional={decision === "approve"}
          error={fault && problemSentence(fault, language)}
        >
          {(field) => (
            <TextArea {...field} rows={4} value={reason} onChange={(event) => setReason(event.target.value)} />
          )}
        </Field>
      )}
      {!fault && <ProblemView error={error} />}
    </Dialog>
  )
}
