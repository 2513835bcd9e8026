/** A team and its members. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { LogOut, Pencil, Trash2, UserMinus, UserPlus, Users } from "lucide-react"
import { useMemo, useState } from "react"
import {
  deleteTeam,
  editTeam,
  type Member,
  membersQuery,
  removeMember,
  setMember,
  teamQuery,
  usersQuery,
} from "@/api/admin"
import { useMe } from "@/api/client"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { actionsColumn, type Column } from "@/components/data-table"
import { Confirm, FormDialog, text } from "@/components/dialog"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Field, Input, Select } from "@/components/form"
import { Listing } from "@/components/listing"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { note, noteError } from "@/components/toasts"
import { Webhooks } from "@/components/webhooks"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { NameFields } from "@/pages/admin/fields"

const route = getRouteApi("/shell/teams/$team")

export function TeamPage() {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const me = useMe()
  const { team: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const away = useNavigate()
  const { asked, shown } = listState(search, navigate, "name", 100)
  const found = useQuery(teamQuery(id))
  const members = useQuery(membersQuery(id, asked))
  const [removing, setRemoving] = useState<Member>()
  const team = found.data
  const open = (which: string | undefined) => void navigate({ search: (before) => ({ ...before, open: which }) })
  const columns = useMemo((): Column<Member>[] => {
    const sets = team?.may.includes("set members")
    const change = async (member: Member, role: Member["role"]) => {
      try {
        if (team) await setMember(team, member.user_id, role)
      } catch (error) {
        noteError(error)
      }
    }
    return [
      {
        id: "name",
        header: w("account"),
        sort: "name",
        cell: (member) => <span className="font-medium">{member.name}</span>,
      },
      { id: "display", header: w("displayName"), cell: (member) => member.display_name || "–" },
      {
        id: "role",
        header: w("role"),
        sort: "role",
        cell: (member) =>
          sets ? (
            <Select
              aria-label={w("roleOf", { name: member.name })}
              className="w-auto"
              value={member.role}
              onChange={(event) => void change(member, event.target.value === "leader" ? "leader" : "member")}
            >
              <option value="member">{w("roleMember")}</option>
              <option value="leader">{w("roleLeader")}</option>
            </Select>
          ) : (
            <Badge tone={member.role === "leader" ? "primary" : "plain"}>
              {w(member.role === "leader" ? "roleLeader" : "roleMember")}
            </Badge>
          ),
      },
      { id: "since", header: w("since"), sort: "since", cell: (member) => <Time at={member.since} /> },
      actionsColumn(c("actions"), (member) => {
        const isMe = member.user_id === me.user.id
        if (!(isMe ? team?.may.includes("leave") : sets)) return null
        return (
          <Button
            look="ghost"
            size="icon"
            aria-label={isMe ? w("leave") : c("removeOne", { name: member.name })}
            title={isMe ? w("leave") : c("remove")}
            onClick={() => setRemoving(member)}
          >
            {isMe ? <LogOut /> : <UserMinus />}
          </Button>
        )
      }),
    ]
  }, [w, c, team, me.user.id])
  const above =
    me.user.role === "admin" ? (
      <Link to="/admin" search={{ tab: "teams" }} className="hover:underline">
        {w("teams")}
      </Link>
    ) : (
      <Link to="/account" search={{ tab: "teams" }} className="hover:underline">
        {w("teams")}
      </Link>
    )
  if (!team)
    return (
      <Page title={w("teams")} above={above}>
        {found.isPending ? <Loading /> : <ProblemView error={found.error} retry={() => void found.refetch()} />}
      </Page>
    )
  const add = team.may.includes("set members") && (
    <Button look="primary" onClick={() => open("add")}>
      <UserPlus />
      {w("addMember")}
    </Button>
  )
  return (
    <Page
      title={team.name}
      above={above}
      lead={team.description}
      actions={
        <>
          {team.may.includes("delete") && (
            <Button onClick={() => open("delete")}>
              <Trash2 />
              {c("delete")}
            </Button>
          )}
          {team.may.includes("edit") && (
            <Button onClick={() => open("edit")}>
              <Pencil />
              {c("edit")}
            </Button>
          )}
          {add}
        </>
      }
    >
      <Listing
        label={w("members")}
        found={members}
        columns={columns}
        rowId={(member) => member.user_id}
        {...shown}
        empty={
          <Empty icon={Users} title={w("noMembers")} actions={add}>
            {w("noMembersHelp")}
          </Empty>
        }
      />
      {(team.id in me.teams || me.user.role === "admin") && <Webhooks team={team.id} adds />}
      {search.open === "add" && add && <AddMember team={team} close={() => open(undefined)} />}
      {search.open === "edit" && (
        <FormDialog
          title={w("editTeam")}
          action={c("save")}
          fields={["name", "description"]}
          onClose={() => open(undefined)}
          onSubmit={async (form) => {
            await editTeam(team, { name: text(form, "name"), description: text(form, "description") })
            open(undefined)
          }}
        >
          {(fault) => (
            <NameFields fault={fault} name={team.name} description={team.description} hint={w("accountHint")} />
          )}
        </FormDialog>
      )}
      <Confirm
        open={search.open === "delete"}
        danger
        onClose={() => open(undefined)}
        title={w("deleteTeamTitle", { name: team.name })}
        lead={w("deleteTeamHelp")}
        action={c("delete")}
        onConfirm={async () => {
          await away({ to: "/admin", search: { tab: "teams" } })
          await deleteTeam(team)
          note(w("deleted", { name: team.name }))
        }}
      />
      {removing && (
        <Confirm
          open
          danger
          onClose={() => setRemoving(undefined)}
          title={removing.user_id === me.user.id ? w("leaveTitle") : w("removeMemberTitle", { name: removing.name })}
          action={removing.user_id === me.user.id ? w("leave") : c("remove")}
          onConfirm={() => removeMember(team, removing.user_id)}
        />
      )}
    </Page>
  )
}

function AddMember({ team, close }: { team: NonNullable<Parameters<typeof setMember>[0]>; close: () => void }) {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const [typed, setTyped] = useState("")
  const people = useQuery(usersQuery({ q: typed, disabled: false, limit: 20 })).data?.items ?? []
  return (
    <FormDialog
      title={w("addMember")}
      action={c("add")}
      fields={[]}
      onClose={close}
      onSubmit={async (form) => {
        await setMember(team, text(form, "user"), form.get("role") === "leader" ? "leader" : "member")
        close()
      }}
    >
      {() => (
        <>
          <Field label={w("account")} hint={w("addMemberHint")}>
            {(field) => (
              <Input
                {...field}
                name="user"
                list="people"
                required
                autoFocus
                autoComplete="off"
                autoCapitalize="off"
                value={typed}
                onChange={(event) => setTyped(event.target.value)}
              />
            )}
          </Field>
          <datalist id="people">
            {people.map((person) => (
              <option key={person.id} value={person.name}>
                {person.display_name}
              </option>
            ))}
          </datalist>
          <Field label={w("role")}>
            {(field) => (
              <Select {...field} name="role" defaultValue="member">
                <option value="member">{w("roleMember")}</option>
                <option value="leader">{w("roleLeader")}</option>
              </Select>
            )}
          </Field>
        </>
      )}
    </FormDialog>
  )
}
