/** The actions on a thing: a menu, or buttons with a menu for the rest. Some ask for confirmation first. */
import { Link, type LinkProps } from "@tanstack/react-router"
import { EllipsisVertical, Plus } from "lucide-react"
import { type ReactNode, useState } from "react"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { Button } from "./button"
import { Confirm } from "./dialog"
import { Menu, type MenuItem } from "./menu"
import { noteError } from "./toasts"

export interface Action {
  label: string
  icon: ReactNode
  run: () => unknown
  /** Asked before it is run. */
  confirm?: { title: string; lead: string; danger?: boolean }
  danger?: boolean
  primary?: boolean
  title?: string
}

interface Props {
  /** The name of the thing, for the label of the menu. */
  name?: string
  actions: readonly (Action | undefined)[]
  /** As buttons; only dangerous actions are in the menu. */
  open?: boolean
  /** The menu's button has the size of the buttons beside it. */
  large?: boolean
}

export function Actions({ name, actions, open, large = open }: Props) {
  const c = useTexts(commonTexts)
  const [asking, setAsking] = useState<string>()
  const items = actions.filter((action) => action !== undefined)
  const start = ({ label, confirm, run }: Action) => {
    if (confirm) setAsking(label)
    else void Promise.resolve(run()).catch(noteError)
  }
  const buttons = open ? items.filter((item) => !item.danger || item.primary) : []
  const rest = items.filter((item) => !buttons.includes(item))
  return (
    <>
      {buttons.map((action) => (
        <Button
          key={action.label}
          onClick={() => start(action)}
          look={action.primary ? "primary" : "plain"}
          title={action.title}
        >
          {action.icon}
          {action.label}
        </Button>
      ))}
      {rest.length > 0 && (
        <Menu items={rest.flatMap((action, index) => menuItems(action, index, start))}>
          <Button
            look={large ? "plain" : "ghost"}
            size="icon"
            className={large ? "size-9" : ""}
            aria-label={name === undefined ? c("more") : `${c("actions")}: ${name}`}
          >
            <EllipsisVertical />
          </Button>
        </Menu>
      )}
      {items.map(
        ({ label, confirm, danger, run }) =>
          confirm && (
            <Confirm
              key={label}
              open={asking === label}
              onClose={() => setAsking(undefined)}
              title={confirm.title}
              lead={confirm.lead}
              action={label}
              danger={danger || confirm.danger}
              onConfirm={run}
            />
          ),
      )}
    </>
  )
}

/** The main action of a list: leads to the form for a new one. */
export function CreateLink({ children, ...link }: LinkProps & { children: ReactNode }) {
  return (
    <Button asChild look="primary">
      <Link {...link}>
        <Plus />
        {children}
      </Link>
    </Button>
  )
}

/** The main action of a list whose form is a dialog. */
export function CreateButton({ onClick, children }: { onClick: () => void; children: ReactNode }) {
  return (
    <Button look="primary" onClick={onClick}>
      <Plus />
      {children}
    </Button>
  )
}

/** A line separates a dangerous action from those above it. */
function menuItems(action: Action, index: number, start: (action: Action) => void): (MenuItem | "line")[] {
  const { label, icon, danger } = action
  const item: MenuItem = { label, icon, danger, onSelect: () => start(action) }
  return danger && index > 0 ? ["line", item] : [item]
}
