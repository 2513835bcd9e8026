import { useQuery } from "@tanstack/react-query"
import { teamsQuery } from "@/api/offers"
import { useMe } from "@/api/session"
import { Field, Input, Select, TextArea } from "@/components/form"
import { commonWords } from "@/words/common"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"

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

/** What a workflow is called and who works on it. */
export function WorkflowFields({ value, change, fault }: Props) {
  const w = useWords(editorWords)
  const c = useWords(commonWords)
  const me = useMe()
  const teams = (useQuery(teamsQuery).data?.items ?? []).filter((team) => team.id in me.teams || team.id === value.team)
  return (
    <>
      <Field label={w("workflowName")} error={fault("name") ?? fault("workflow.name")}>
        {(field) => (
          <Input
            {...field}
            required
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
      {teams.length > 0 && (
        <Field label={c("team")} error={fault("team") ?? fault("workflow.team")}>
          {(field) => (
            <Select {...field} value={value.team} onChange={(event) => change({ ...value, team: event.target.value })}>
              <option value="">{c("noTeam")}</option>
              {teams.map((team) => (
                <option key={team.id} value={team.id}>
                  {team.name}
                </option>
              ))}
            </Select>
          )}
        </Field>
      )}
    </>
  )
}
