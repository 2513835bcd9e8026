import { useQuery } from "@tanstack/react-query"
import { teamsQuery } from "@/api/offers"
import { Field, Select } from "@/components/form"
import { adminWords } from "@/words/admin"
import { useWords } from "@/words/words"

/** Who may use something: a team, or everybody. */
export function TeamField({ value, error }: { value?: string | null; error?: string }) {
  const w = useWords(adminWords)
  const teams = useQuery(teamsQuery).data?.items
  return (
    <Field label={w("who")} error={error}>
      {(field) => (
        // What is chosen first can be shown only when the teams are known.
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
