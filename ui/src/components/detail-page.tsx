/** The page of one object: while it loads, if it cannot be loaded, and after it was deleted. */
import type { UseQueryResult } from "@tanstack/react-query"
import { Link, type LinkProps } from "@tanstack/react-router"
import { Trash2 } from "lucide-react"
import type { ReactNode } from "react"
import { Button } from "./button"
import { Empty, Loading, ProblemView } from "./feedback"
import { Page } from "./page"

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

/** The facts below the title. */
export function Facts({ children }: { children: ReactNode }) {
  return <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-[13px]">{children}</div>
}
