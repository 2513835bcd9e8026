/** Fields that several forms of the administration share. */

import { useQuery } from "@tanstack/react-query"
import { teamsQuery } from "@/api/options"
import { Field, Input, Select, TextArea } from "@/components/form"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"

interface NameProps {
  fault: (field: string) => string | undefined
  name?: string
  description?: string
  hint?: string
}

/** Name and description. */
export function NameFields({ fault, name, description, hint }: NameProps) {
  const c = useTexts(commonTexts)
  return (
    <>
      <Field label={c("name")} hint={hint} error={fault("name")}>
        {(field) => <Input {...field} name="name" required autoFocus autoComplete="off" defaultValue={name} />}
      </Field>
      <Field label={c("description")} optional error={fault("description")}>
        {(field) => <TextArea {...field} name="description" rows={2} defaultValue={description} />}
      </Field>
    </>
  )
}

/** Who may use something: a team, or everyone. */
export function TeamField({ value, error }: { value?: string | null; error?: string }) {
  const w = useTexts(adminTexts)
  const teams = useQuery(teamsQuery).data?.items
  return (
    <Field label={w("who")} error={error}>
      {(field) => (
        // The selected team can be shown only when the teams are loaded.
        <Select {...field} key={teams ? "known" : "unknown"} name="team" defaultValue={value ?? ""}>
          <option value="">{w("everybody")}</option>
          {(teams ?? []).map((team) => (
            <option key={team.id} value={team.id}>
              {team.name}
            </option>
          ))}
        </Select>
      )}
    </Field>
  )
}
