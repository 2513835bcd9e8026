/** The page of one object: while it loads, if it cannot be loaded, after it was deleted; its facts, tabs, events and log. */
import type { UseQueryResult } from "@tanstack/react-query"
import { Link, type LinkProps } from "@tanstack/react-router"
import { Trash2 } from "lucide-react"
import type { ReactNode } from "react"
import { Button } from "./button"
import { EventList } from "./event-list"
import { Empty, Loading, ProblemView } from "./feedback"
import { Page } from "./page"
import { type Tab, Tabs } from "./tabs"

interface Props<T> {
  /** The title while there is nothing else to show. */
  name: string
  /** The list that the object is in. */
  list: { to: LinkProps["to"]; title: string }
  found: UseQueryResult<T>
  /** What to say once the object was deleted. */
  deleted?: string | false
  /** Renders the object; `back` is the link to the list. */
  children: (object: T, back: ReactNode) => ReactNode
}

export function DetailPage<T>({ name, list, found, deleted, children }: Props<T>) {
  const back = (
    <Link to={list.to} className="hover:underline">
      {list.title}
    </Link>
  )
  if (deleted)
    return (
      <Page title={name} above={back}>
        <Empty
          icon={Trash2}
          title={deleted}
          actions={
            <Button asChild look="primary">
              <Link to={list.to}>{list.title}</Link>
            </Button>
          }
        />
      </Page>
    )
  if (found.data !== undefined) return children(found.data, back)
  if (!found.error) return <Loading />
  return (
    <Page title={name} above={back}>
      <ProblemView error={found.error} retry={() => void found.refetch()} />
    </Page>
  )
}

interface TabbedProps {
  title: string
  /** Its state, beside the title. */
  state: ReactNode
  /** The link to the list. */
  back: ReactNode
  /** Each a `Fact`, or a badge. */
  facts: ReactNode
  actions: ReactNode
  /** Above the tabs: why it waits, what went wrong. */
  notice?: ReactNode
  tabs: Tab[]
  /** The tab in the address. */
  tab: string | undefined
  onTab: (tab: string) => void
}

export function TabbedPage({ title, state, back, facts, actions, notice, tabs, tab, onTab }: TabbedProps) {
  return (
    <Page wide title={title} aside={state} above={back} lead={<Facts>{facts}</Facts>} actions={actions}>
      {notice}
      <Tabs tabs={tabs} value={tab} onChange={onTab} inside="pt-4" />
    </Page>
  )
}

/** The facts below the title. */
export function Facts({ children }: { children: ReactNode }) {
  return <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-[13px]">{children}</div>
}

export function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <span>
      {label}: {children}
    </span>
  )
}

/** The events of an object, the newest first. */
export function Events({ found }: { found: UseQueryResult<Parameters<typeof EventList>[0]["events"]> }) {
  if (found.error) return <ProblemView error={found.error} />
  if (!found.data) return <Loading />
  return <EventList events={[...found.data].reverse()} className="divide-y rounded-lg border bg-card" />
}

/** A log that takes what is left of the screen. */
export function LogFrame({ label, children }: { label: string; children: ReactNode }) {
  return (
    <section
      aria-label={label}
      className="flex h-[calc(100vh-18rem)] min-h-80 min-w-0 flex-col overflow-hidden rounded-lg border bg-card"
    >
      {children}
    </section>
  )
}
