import { useQuery } from "@tanstack/react-query"
import { Ellipsis, Plus } from "lucide-react"
import { useMemo, useState } from "react"
import { createUser, editUser, resetPassword, type User, userQuery, usersQuery } from "@/api/admin"
import { useMe } from "@/api/client"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { CopyText } from "@/components/code"
import { actionsColumn, type Column } from "@/components/data-table"
import { Confirm, Dialog, FormDialog, text } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Filters, SearchBox } from "@/components/filters"
import { Field, Input, Select } from "@/components/form"
import { Listing, usePage } from "@/components/listing"
import { Menu } from "@/components/menu"
import { Time } from "@/components/time"
import { note, noteError } from "@/components/toasts"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { useAdminList } from "./managed-list"

const ROLES = { admin: "roleAdmin", leader: "roleLeader", member: "roleMember" } as const

interface Invitation {
  name: string
  link: string
  isNew: boolean
}

export function Users() {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const me = useMe()
  const { search, asked, shown, filter, open, close, clear } = useAdminList()
  const role = search.role === "admin" || search.role === "leader" || search.role === "member" ? search.role : undefined
  const disabled = search.state === "disabled" ? true : search.state === "active" ? false : undefined
  const found = usePage(usersQuery({ q: search.q, role, disabled, ...asked }))
  const [invitation, setInvitation] = useState<Invitation>()
  const [disabling, setDisabling] = useState<User>()

  const columns = useMemo((): Column<User>[] => {
    const invite = async (user: User) => {
      try {
        const { link } = await resetPassword(user)
        setInvitation({ name: user.name, link, isNew: !user.has_password })
      } catch (error) {
        noteError(error)
      }
    }
    const enable = async (user: User) => {
      try {
        await editUser(user, { disabled: false })
        note(w("enabledNow", { name: user.name }))
      } catch (error) {
        noteError(error)
      }
    }
    return [
      {
        id: "name",
        header: w("account"),
        sort: "name",
        cell: (user) => (
          <button type="button" className="font-medium text-primary hover:underline" onClick={() => open(user.id)}>
            {user.name}
          </button>
        ),
      },
      { id: "display", header: w("displayName"), sort: "display_name", cell: (user) => user.display_name || "–" },
      { id: "email", header: w("email"), cell: (user) => user.email || "–" },
      {
        id: "role",
        header: w("role"),
        cell: (user) => <Badge tone={user.role === "member" ? "plain" : "primary"}>{w(ROLES[user.role])}</Badge>,
      },
      {
        id: "state",
        header: w("state"),
        cell: (user) =>
          user.disabled ? (
            <Badge tone="warning">{w("disabled")}</Badge>
          ) : user.openid ? (
            <Badge>{w("fromOpenId")}</Badge>
          ) : user.has_password ? (
            <Badge tone="succeeded">{w("active")}</Badge>
          ) : (
            <Badge tone="waiting">{w("noPassword")}</Badge>
          ),
      },
      { id: "login", header: w("lastLogin"), cell: (user) => <Time at={user.last_login} /> },
      { id: "created", header: c("created"), sort: "created", cell: (user) => <Time at={user.created} /> },
      actionsColumn(c("actions"), (user) => (
        <Menu
          items={[
            { label: c("edit"), onSelect: () => open(user.id) },
            { label: w("resetPassword"), onSelect: () => void invite(user), disabled: user.disabled },
            {
              label: w("whatTheyDid"),
              onSelect: () =>
                filter({
                  tab: "audit",
                  actor: user.name,
                  q: undefined,
                  role: undefined,
                  state: undefined,
                  sort: undefined,
                }),
            },
            ...(user.id === me.user.id
              ? []
              : [
                  "line" as const,
                  user.disabled
                    ? { label: w("enable"), onSelect: () => void enable(user) }
                    : { label: w("disable"), danger: true, onSelect: () => setDisabling(user) },
                ]),
          ]}
        >
          <Button look="ghost" size="icon" aria-label={`${c("actions")}: ${user.name}`}>
            <Ellipsis />
          </Button>
        </Menu>
      )),
    ]
  }, [w, c, me.user.id, open, filter])

  return (
    <>
      <Filters>
        <SearchBox label={w("searchUsers")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <Select
          aria-label={w("role")}
          className="w-auto"
          value={role ?? ""}
          onChange={(event) => filter({ role: event.target.value || undefined })}
        >
          <option value="">{w("allRoles")}</option>
          {(["admin", "leader", "member"] as const).map((each) => (
            <option key={each} value={each}>
              {w(ROLES[each])}
            </option>
          ))}
        </Select>
        <Select
          aria-label={w("state")}
          className="w-auto"
          value={search.state ?? ""}
          onChange={(event) => filter({ state: event.target.value || undefined })}
        >
          <option value="">{w("allStates")}</option>
          <option value="active">{w("active")}</option>
          <option value="disabled">{w("disabled")}</option>
        </Select>
        <Button look="primary" className="ml-auto" onClick={() => open("new")}>
          <Plus />
          {w("newUser")}
        </Button>
      </Filters>
      <Listing
        label={w("users")}
        found={found}
        columns={columns}
        rowId={(user) => user.id}
        {...shown}
        clear={search.q || search.role || search.state ? clear : undefined}
        empty={null}
      />
      {search.open === "new" && (
        <NewUser
          close={close}
          created={(made) => {
            close()
            if (made.link) setInvitation({ name: made.name, link: made.link, isNew: true })
            else note(w("created", { name: made.name }))
          }}
        />
      )}
      {search.open && search.open !== "new" && (
        <EditUser id={search.open} isMe={search.open === me.user.id} close={close} />
      )}
      {invitation && (
        <Dialog
          open
          onClose={() => setInvitation(undefined)}
          title={w(invitation.isNew ? "inviteTitle" : "resetTitle", { name: invitation.name })}
          actions={
            <Button look="primary" onClick={() => setInvitation(undefined)}>
              {c("done")}
            </Button>
          }
        >
          <p>{w(invitation.isNew ? "inviteHelp" : "resetHelp")}</p>
          <CopyText label={w("inviteLink")} text={invitation.link} />
        </Dialog>
      )}
      {disabling && (
        <Confirm
          open
          danger
          onClose={() => setDisabling(undefined)}
          title={w("disableTitle", { name: disabling.name })}
          lead={w("disableHelp")}
          action={w("disable")}
          onConfirm={async () => {
            await editUser(disabling, { disabled: true })
            note(w("disabledNow", { name: disabling.name }))
          }}
        />
      )}
    </>
  )
}

function NewUser({
  close,
  created,
}: {
  close: () => void
  created: (made: { name: string; link: string | null }) => void
}) {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const submit = async (form: FormData) => {
    const role = form.get("role") === "admin" ? "admin" : "member"
    const made = await createUser({
      name: text(form, "name"),
      display_name: text(form, "display_name"),
      email: text(form, "email"),
      role,
    })
    created({ name: made.user.name, link: made.link })
  }
  return (
    <FormDialog
      title={w("newUserTitle")}
      lead={w("inviteHint")}
      action={c("create")}
      fields={["name", "display_name", "email", "role"]}
      onClose={close}
      onSubmit={submit}
    >
      {(fault) => (
        <>
          <Field label={w("account")} hint={w("accountHint")} error={fault("name")}>
            {(field) => (
              <Input
                {...field}
                name="name"
                required
                autoFocus
                autoCapitalize="off"
                autoComplete="off"
                spellCheck={false}
              />
            )}
          </Field>
          <PersonFields fault={fault} />
          <RoleField fault={fault} value="member" />
        </>
      )}
    </FormDialog>
  )
}

function EditUser({ id, isMe, close }: { id: string; isMe: boolean; close: () => void }) {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const { data: user, error } = useQuery(userQuery(id))
  if (!user)
    return (
      <Dialog open onClose={close} title={c("edit")}>
        <ProblemView error={error} />
      </Dialog>
    )
  const submit = async (form: FormData) => {
    const role = form.get("role") === "admin" ? ("admin" as const) : ("member" as const)
    await editUser(user, {
      display_name: text(form, "display_name"),
      email: text(form, "email"),
      ...(isMe ? {} : { role }),
    })
    note(w("saved", { name: user.name }))
    close()
  }
  return (
    <FormDialog
      title={w("editUser", { name: user.name })}
      action={c("save")}
      fields={["display_name", "email", "role"]}
      onClose={close}
      onSubmit={submit}
    >
      {(fault) => (
        <>
          <PersonFields fault={fault} user={user} />
          <RoleField
            fault={fault}
            value={user.role === "admin" ? "admin" : "member"}
            hint={isMe ? w("notYourself") : undefined}
          />
        </>
      )}
    </FormDialog>
  )
}

function PersonFields({ fault, user }: { fault: (field: string) => string | undefined; user?: User }) {
  const w = useTexts(adminTexts)
  return (
    <>
      <Field label={w("displayName")} optional error={fault("display_name")}>
        {(field) => <Input {...field} name="display_name" maxLength={200} defaultValue={user?.display_name} />}
      </Field>
      <Field label={w("email")} optional error={fault("email")}>
        {(field) => <Input {...field} name="email" type="email" maxLength={200} defaultValue={user?.email ?? ""} />}
      </Field>
    </>
  )
}

function RoleField({
  fault,
  value,
  hint,
}: {
  fault: (field: string) => string | undefined
  value: string
  hint?: string
}) {
  const w = useTexts(adminTexts)
  return (
    <Field label={w("role")} error={fault("role")} hint={hint}>
      {(field) => (
        <Select {...field} name="role" defaultValue={value} disabled={hint !== undefined}>
          <option value="member">{w("roleMember")}</option>
          <option value="admin">{w("roleAdmin")}</option>
        </Select>
      )}
    </Field>
  )
}
