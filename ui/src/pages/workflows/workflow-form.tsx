/** Name, description and team of a workflow, and the dialog to edit them. */

import { useState } from "react"
import { asProblem } from "@/api/problem"
import { editWorkflow, type Workflow } from "@/api/workflows"
import { Button } from "@/components/button"
import { Dialog } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Field, Input, TextArea } from "@/components/form"
import { OwnTeamField } from "@/components/own-team-field"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"

export interface WorkflowText {
  name: string
  description: string
  /** Its id; "" for none. */
  team: string
}

interface Props {
  value: WorkflowText
  change: (value: WorkflowText) => void
  fault: (field: string) => string | undefined
}

/** Name, description and team of a workflow. */
export function WorkflowFields({ value, change, fault }: Props) {
  const w = useTexts(editorTexts)
  const c = useTexts(commonTexts)
  return (
    <>
      <Field label={w("workflowName")} error={fault("name") ?? fault("workflow.name")}>
        {(field) => (
          <Input
            {...field}
            required
            data-field="workflow.name"
            value={value.name}
            onChange={(event) => change({ ...value, name: event.target.value })}
          />
        )}
      </Field>
      <Field label={c("description")} optional error={fault("description") ?? fault("workflow.description")}>
        {(field) => (
          <TextArea
            {...field}
            rows={2}
            value={value.description}
            onChange={(event) => change({ ...value, description: event.target.value })}
          />
        )}
      </Field>
      <OwnTeamField
        error={fault("team") ?? fault("workflow.team")}
        value={value.team}
        onChange={(team) => change({ ...value, team })}
      />
    </>
  )
}

export function EditWorkflow({ workflow, close }: { workflow: Workflow; close: () => void }) {
  const w = useTexts(workflowTexts)
  const c = useTexts(commonTexts)
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
