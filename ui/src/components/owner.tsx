import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"

interface Props {
  of: { owner_name?: string | null; team_name?: string | null }
  /** Why there may be no owner. */
  noneHelp?: string
}

/** Whose something is: a user, a team, or both. */
export function Owner({ of: { owner_name: owner, team_name: team }, noneHelp }: Props) {
  const c = useTexts(commonTexts)
  if (!owner && !team)
    return (
      <span className="text-muted-foreground" title={noneHelp}>
        {c("none")}
      </span>
    )
  return (
    <span>
      {owner}
      {team && (
        <span className="text-muted-foreground">
          {owner && " · "}
          {team}
        </span>
      )}
    </span>
  )
}
