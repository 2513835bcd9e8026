import { Link, useNavigate } from "@tanstack/react-router"
import { Users as Icon, Plus } from "lucide-react"
import { useMemo } from "react"
import { createTeam, type Team, teamListQuery } from "@/api/admin"
import { Button } from "@/components/button"
import type { Column } from "@/components/data-table"
import { FormDialog, text } from "@/components/dialog"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox } from "@/components/filters"
import { Listing, usePage } from "@/components/listing"
import { Time } from "@/components/time"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { NameFields } from "./fields"
import { useAdminList } from "./managed-list"

export function Teams() {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  const { search, asked, shown, filter, open, close, clear } = useAdminList()
  const found = usePage(teamListQuery({ q: search.q, ...asked }))
  const columns = useMemo(
    (): Column<Team>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (team) => (
          <Link to="/teams/$team" params={{ team: team.id }} className="font-medium text-primary hover:underline">
            {team.name}
          </Link>
        ),
      },
      {
        id: "description",
        header: c("description"),
        cell: (team) => <span className="line-clamp-2 max-w-md">{team.description || "–"}</span>,
      },
      { id: "members", header: w("members"), cell: (team) => team.members },
      { id: "created", header: c("created"), sort: "created", cell: (team) => <Time at={team.created} /> },
    ],
    [w, c],
  )
  const create = (
    <Button look="primary" onClick={() => open("new")}>
      <Plus />
      {w("newTeam")}
    </Button>
  )
  return (
    <>
      <Filters>
        <SearchBox label={w("searchTeams")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <div className="ml-auto">{create}</div>
      </Filters>
      <Listing
        label={w("teams")}
        found={found}
        columns={columns}
        rowId={(team) => team.id}
        {...shown}
        clear={search.q ? clear : undefined}
        empty={
          <Empty icon={Icon} title={w("noTeams")} actions={create}>
            {w("noTeamsHelp")}
          </Empty>
        }
      />
      {search.open === "new" && (
        <FormDialog
          title={w("newTeam")}
          action={c("create")}
          fields={["name", "description"]}
          onClose={close}
          onSubmit={async (form) => {
            const team = await createTeam({ name: text(form, "name"), description: text(form, "description") })
            await navigate({ to: "/teams/$team", params: { team: team.id } })
          }}
        >
          {(fault) => <NameFields fault={fault} hint={w("accountHint")} />}
        </FormDialog>
      )}
    </>
  )
}
