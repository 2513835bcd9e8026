import { useState } from "react"
import { asProblem } from "@/api/problem"
import { editWorkflow, type Workflow } from "@/api/workflows"
import { Button } from "@/components/button"
import { Dialog } from "@/components/dialog"
import { ProblemView } from "@/components/problem-view"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { workflowWords } from "@/words/workflows"
import { WorkflowFields } from "./workflow-fields"

export function EditWorkflow({ workflow, close }: { workflow: Workflow; close: () => void }) {
  const w = useWords(workflowWords)
  const c = useWords(commonWords)
  const [value, setValue] = useState({
    name: workflow.name,
    description: workflow.description,
    team: workflow.team_id ?? "",
  })
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const save = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await editWorkflow(workflow.id, { ...value, team: value.team || null })
      close()
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      onClose={close}
      title={w("editTitle")}
      actions={
        <>
          <Button onClick={close}>{c("cancel")}</Button>
          <Button look="primary" disabled={busy || !value.name.trim()} onClick={() => void save()}>
            {c("save")}
          </Button>
        </>
      }
    >
      <WorkflowFields
        value={value}
        change={setValue}
        fault={(field) => (error ? asProblem(error).of(field) : undefined)}
      />
      <ProblemView error={error} except={["name", "description", "team"]} />
    </Dialog>
  )
}
