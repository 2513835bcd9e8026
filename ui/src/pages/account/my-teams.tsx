import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { Users } from "lucide-react"
import { useMemo } from "react"
import { type Team, teamListQuery } from "@/api/admin"
import { useMe } from "@/api/session"
import { Badge } from "@/components/badge"
import type { Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { Listing } from "@/components/listing"
import { accountWords, adminWords } from "@/words/admin"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

export function MyTeams() {
  const w = useWords(accountWords)
  const a = useWords(adminWords)
  const c = useWords(commonWords)
  const me = useMe()
  const found = useQuery(teamListQuery({ member: me.user.id, limit: 200 }))
  const columns = useMemo(
    (): Column<Team>[] => [
      {
        id: "name",
        header: c("name"),
        cell: (team) => (
          <Link to="/teams/$team" params={{ team: team.id }} className="font-medium text-primary hover:underline">
            {team.name}
          </Link>
        ),
      },
      { id: "description", header: c("description"), cell: (team) => team.description || "–" },
      { id: "members", header: a("members"), cell: (team) => team.members },
      {
        id: "role",
        header: a("role"),
        cell: (team) => {
          const leads = me.teams[team.id] === "leader"
          return <Badge tone={leads ? "primary" : "plain"}>{a(leads ? "roleLeader" : "roleMember")}</Badge>
        },
      },
    ],
    [a, c, me.teams],
  )
  return (
    <Listing
      label={w("teams")}
      found={found}
      columns={columns}
      rowId={(team) => team.id}
      empty={
        <Empty icon={Users} title={w("noTeams")}>
          {w("noTeamsHelp")}
        </Empty>
      }
    />
  )
}
