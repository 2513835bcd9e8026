/** One of the user's teams, to share something with. Hidden from users without a team. */
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { useMe } from "@/api/client"
import { teamsQuery } from "@/api/options"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { Field, Select } from "./form"

interface Props {
  /** "Team" if left out. */
  label?: string
  hint?: string
  error?: string
  optional?: boolean
  className?: string
  /** The label of "no team". */
  none?: string
  /** The team that is chosen. Without `onChange`, the form reads the field "team". */
  value?: string
  onChange?: (team: string) => void
}

export function OwnTeamField({ label, none, value, onChange, ...field }: Props) {
  const c = useTexts(commonTexts)
  const mine = useMe().teams
  const [before] = useState(value) // an object may belong to a team that the user is not in
  const isMember = Object.keys(mine).length > 0
  const teams = useQuery({ ...teamsQuery, enabled: isMember || Boolean(before) })
  const offered = (teams.data?.items ?? []).filter(({ id }) => id in mine || id === before)
  if (!isMember && !offered.length) return null
  return (
    <Field label={label ?? c("team")} {...field}>
      {(attributes) => (
        <Select
          {...attributes}
          {...(onChange ? { value, onChange: (event) => onChange(event.target.value) } : { name: "team" })}
        >
          <option value="">{none ?? c("noTeam")}</option>
          {offered.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </Select>
      )}
    </Field>
  )
}
