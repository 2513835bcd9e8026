/** Queries that follow the server by server-sent events. */
import { type QueryKey, useQueryClient } from "@tanstack/react-query"
import { useEffect, useEffectEvent, useState } from "react"

const GATHER_MS = 500

interface ListPage<T> {
  items: T[]
}

/** Keeps lists up to date: what changes is replaced where it is shown, and the lists are loaded again a moment later. */
export function useLiveList<T>(events: string, key: QueryKey, isSame: (a: T, b: Partial<T>) => boolean): void {
  const client = useQueryClient()
  const replace = useEffectEvent((changed: Partial<T>) =>
    client.setQueriesData<ListPage<T>>({ queryKey: key }, (page) =>
      page?.items.some((each) => isSame(each, changed))
        ? { ...page, items: page.items.map((each) => (isSame(each, changed) ? { ...each, ...changed } : each)) }
        : page,
    ),
  )
  const load = useEffectEvent(() => void client.invalidateQueries({ queryKey: key }))
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const reload = () => {
      timer ??= setTimeout(() => {
        timer = undefined
        load()
      }, GATHER_MS)
    }
    const source = new EventSource(events)
    source.addEventListener("reset", reload)
    source.addEventListener("gone", reload)
    source.addEventListener("job", (event) => {
      replace(JSON.parse(event.data as string) as Partial<T>)
      reload() // it may be new, or belong to other lists now, or allow other actions
    })
    return () => {
      source.close()
      clearTimeout(timer)
    }
  }, [events])
}

/** Calls `take` with every version of one thing. Returns true when it was deleted. `name` is that of the events. */
export function useLiveOne<T>(events: string, take: (found: T) => void, name = "job"): boolean {
  const [gone, setGone] = useState(false)
  const taken = useEffectEvent(take)
  useEffect(() => {
    setGone(false)
    const source = new EventSource(events)
    source.addEventListener(name, (event) => taken(JSON.parse(event.data as string) as T))
    source.addEventListener("gone", () => {
      source.close()
      setGone(true)
    })
    return () => source.close()
  }, [events, name])
  return gone
}
